"""Check what the credentials of a backend may do in the cluster, and describe the cluster, for `backend check`."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from anygpu.backends.contract import AccountStatus, LaunchRequest
from anygpu.backends.kubernetes.cluster import AlreadyExists, Cluster
from anygpu.backends.kubernetes.manifests import PodPlan, build_job
from anygpu.backends.kubernetes.offers import ClusterState
from anygpu.backends.kubernetes.options import KubernetesOptions
from anygpu.errors import AnygpuError, LaunchError
from anygpu.spec.sections import Resources


@dataclass(frozen=True, slots=True)
class Permission:
    """A right that the backend needs. The rights to `optional` resources only make offers more exact."""

    verb: str
    resource: str
    group: str = ""
    cluster_wide: bool = False
    optional: str = ""  # what is missing without it


# deploy/kubernetes/rbac.yaml grants exactly these.
PERMISSIONS = (
    *(Permission(verb, "jobs", "batch") for verb in ("create", "delete", "get", "list", "watch")),
    *(Permission(verb, "pods") for verb in ("delete", "list", "watch")),
    Permission("create", "secrets"),
    *(Permission(verb, "configmaps") for verb in ("create", "delete")),
    Permission("list", "nodes", cluster_wide=True),
    Permission("list", "pods", cluster_wide=True, optional="it is not known how much of the nodes is free"),
)


async def check_cluster(
    cluster: Cluster,
    options: KubernetesOptions,
    namespace: str | None,
    read_state: Callable[[], Awaitable[ClusterState]],
) -> AccountStatus:
    """Check the rights, the nodes and the namespace. `namespace` None: each project has its own."""
    try:
        missing = await missing_permissions(cluster, namespace)
        may_list_nodes = not any(each.resource == "nodes" for each in missing)
        state = await read_state() if may_list_nodes else None
        is_complete = state is not None and not any(not each.optional for each in missing)
        problem = await find_refusal(cluster, state, options, namespace) if is_complete else ""
    except AnygpuError as error:
        problem = str(error)
    if problem:
        return AccountStatus(valid=False, message=problem.rstrip(".") + ".")
    where = namespace or options.namespace
    expiry = cluster.token_expiry
    return describe_access(missing, state, options, url=cluster.url, namespace=where, token_expiry=expiry)


async def find_refusal(
    cluster: Cluster, state: ClusterState | None, options: KubernetesOptions, namespace: str | None
) -> str:
    """Return why the API server would refuse a Job, such as a missing namespace; empty if it accepts one."""
    pools = state.pools(options) if state is not None else []
    if not pools or namespace is None:
        return ""
    launch = LaunchRequest(
        name="anygpu-check", job_id="", attempt=0, ticket="", agent_url="", resources=Resources()
    )
    plan = PodPlan(
        launch=launch, pool=pools[0], options=options, namespace=namespace, server_tag="", agent_name="anygpu"
    )
    try:
        await cluster.create(build_job(plan), dry_run=True)
    except AlreadyExists:
        return ""
    except LaunchError as error:
        return str(error)
    return ""


async def missing_permissions(cluster: Cluster, namespace: str | None) -> list[Permission]:
    """Return the permissions that the API server does not grant. `namespace` None: all namespaces."""

    async def is_granted(each: Permission) -> bool:
        where = None if each.cluster_wide else namespace
        return await cluster.is_allowed(each.verb, each.resource, each.group, where)

    granted = await asyncio.gather(*(is_granted(each) for each in PERMISSIONS))
    return [each for each, is_there in zip(PERMISSIONS, granted, strict=True) if not is_there]


def describe_access(
    missing: list[Permission],
    state: ClusterState | None,
    options: KubernetesOptions,
    *,
    url: str,
    namespace: str,
    token_expiry: float | None = None,
) -> AccountStatus:
    """Summarise what was found, with one line for each thing that is missing."""
    needed = [each for each in missing if not each.optional]
    lines = [f"API server {url}, namespace {namespace}"]
    if state is not None:
        lines[0] += f": {_describe_nodes(state, options)}"
    if needed:
        rights = ", ".join(f"{each.verb} {each.resource}" for each in needed)
        lines.append(f"missing permissions: {rights}. Apply deploy/kubernetes/rbac.yaml to the cluster")
    lines += [
        f"without the permission to {each.verb} {each.resource}, {each.optional}"
        for each in missing
        if each.optional
    ]
    if token_expiry is not None:
        time = f"{datetime.fromtimestamp(token_expiry, UTC):%Y-%m-%d %H:%M} UTC"
        lines.append(
            f"the token expires at {time}. deploy/kubernetes/token.yaml makes one that does not expire"
        )
    if state is not None and not state.pools(options):
        lines.append("no Linux node has the labels of `node_selector`")
    return AccountStatus(valid=not needed, message="\n".join(lines))


def _describe_nodes(state: ClusterState, options: KubernetesOptions) -> str:
    pools = state.pools(options)
    nodes = sum(len(pool.nodes) for pool in pools)
    gpus: dict[str, int] = {}
    for pool in pools:
        kind = pool.first.product or "GPU"
        gpus[kind] = gpus.get(kind, 0) + sum(node.gpu_count for node in pool.nodes)
    cards = ", ".join(f"{count} × {kind}" for kind, count in gpus.items() if count) or "no GPU"
    return f"{nodes} node{'s' if nodes != 1 else ''}, {cards}"
