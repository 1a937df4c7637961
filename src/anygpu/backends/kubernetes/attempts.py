"""Start, observe and end attempts in a Kubernetes cluster."""

import contextlib
import ipaddress
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import yaml

from anygpu.backends.contract import (
    AccountStatus,
    LaunchRequest,
    MachineState,
    NativeRequest,
    Observation,
    node_name,
)
from anygpu.backends.kubernetes import manifests, status
from anygpu.backends.kubernetes.access import check_cluster
from anygpu.backends.kubernetes.agent_maps import AgentMaps
from anygpu.backends.kubernetes.cluster import (
    ALL_NAMESPACES,
    AlreadyExists,
    AnswerLost,
    Cluster,
)
from anygpu.backends.kubernetes.config import load_config
from anygpu.backends.kubernetes.listing import ClusterLists
from anygpu.backends.kubernetes.nodes import NodeInfo
from anygpu.backends.kubernetes.offers import MAX_NODES, build_offers, find_pool, place_of
from anygpu.backends.kubernetes.options import LABEL, KubernetesOptions
from anygpu.backends.kubernetes.tracker import PodTracker, TrackedPod
from anygpu.backends.owner import owner_tag
from anygpu.backends.relay.contract import RelayTransport
from anygpu.backends.ssh.bootstrap import agent_archive
from anygpu.errors import AnygpuError, BackendUnavailable, LaunchError, LaunchRefused, NoCapacity
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Resources

Json = dict[str, Any]
STATE_AGE_S = 3.0  # offers and launches use a list of nodes and pods that is at most this old
NODES_AGE_S = 15.0  # probes find out at most this late that a node was removed
END_GRACE_S = 1.0  # an attempt that the server ends has already saved, or must not


class KubernetesBackend:
    """Runs each attempt as a Job. Must be created in the event loop it runs in."""

    probe_every_s = 0.0

    def __init__(
        self,
        name: str,
        options: KubernetesOptions,
        *,
        secret: bytes,
        on_change: Callable[[str], None] = lambda name: None,
        relay: RelayTransport | None = None,
    ) -> None:
        self.name = name
        self.relay = relay  # through which agents reach the server; None: directly
        self._options = options
        self._on_change = on_change
        # The label must not change: Jobs in clusters carry the tag.
        self._tag = owner_tag(secret, f"owner of jobs of {name}")
        self._opened: tuple[Cluster, PodTracker] | None = None
        self._lists = ClusterLists(lambda: self._connection()[0], options.gpu_resource)
        self._agents = AgentMaps(self._tag)
        self._launching = 0
        self._ending: set[str] = set()

    # -- backend methods --------------------------------------------------------------------------------------

    async def offers(self, need: Resources) -> Sequence[Offer]:
        """Return one offer for each group of equal nodes."""
        state = await self._lists.state(STATE_AGE_S)
        return build_offers(state, need, backend=self.name, options=self._options)

    async def launch(self, launch: LaunchRequest, offer: Offer) -> Handle:
        """Create the Job of each node of the attempt. A Job that exists already is left as it is."""
        _, tracker = self._connection()
        self._require_route(launch)
        namespace = self._namespace_of(launch)
        pool = find_pool((await self._lists.nodes(NODES_AGE_S)).state, offer, self._options)
        if pool is None:
            raise NoCapacity(
                f"The cluster of the backend {self.name} has no node of the kind {offer.name} any more"
            )
        await tracker.wait_synced()
        self._launching += 1
        try:
            agent_name = await self._store_agent(namespace)
            plans = [
                manifests.PodPlan(
                    launch=launch,
                    pool=pool,
                    options=self._options,
                    namespace=namespace,
                    server_tag=self._tag,
                    agent_name=agent_name,
                    node=node,
                )
                for node in range(launch.nodes)
            ]
            await self._create_all(plans)
            self._lists.add_launched(place_of(pool), launch.nodes)
        finally:
            self._launching -= 1
        native = {"namespace": namespace, **({"nodes": launch.nodes} if launch.nodes > 1 else {})}
        return Handle(name=launch.name, native=native)

    async def probe(self, handle: Handle) -> Observation:
        _, tracker = self._connection()
        await tracker.wait_synced()
        members = tracker.members(handle.name)
        if not members:
            return await self._confirm_gone(handle)
        nodes = await self._nodes_of(members)
        observed = [self._observe(handle.name, name, each, nodes) for name, each in members.items()]
        missing = int(handle.native.get("nodes", 1)) - len(observed)
        return _combine(observed, missing)

    async def terminate(self, handle: Handle) -> None:
        """Delete the Jobs of the attempt. Their pods get a short time to end."""
        _, tracker = self._connection()
        await tracker.wait_synced()
        self._ending.add(handle.name)
        members = tracker.members(handle.name)
        nodes = await self._nodes_of(members)
        for name, member in members.items():
            await self._delete_member(name, member, nodes)
        if not members and not tracker.is_known(handle.name):
            await self._delete_unseen(handle)

    # -- optional capabilities --------------------------------------------------------------------------------

    async def inventory(self) -> Sequence[Handle]:
        _, tracker = self._connection()
        await tracker.wait_synced()
        return [self._handle_of(name, tracker.members(name)) for name in tracker.attempts()]

    async def check(self) -> AccountStatus:
        try:
            cluster, _ = self._connection()
        except AnygpuError as error:
            return AccountStatus(valid=False, message=f"{error}".rstrip(".") + ".")
        namespace = None if self._options.uses_all_namespaces else self._fixed_namespace(cluster)
        return await check_cluster(cluster, self._options, namespace, lambda: self._lists.state(0))

    async def native_requests(self, launch: LaunchRequest, offer: Offer) -> Sequence[NativeRequest]:
        """Return the manifests of a launch as YAML, without the ticket."""
        pool = find_pool((await self._lists.nodes(NODES_AGE_S)).state, offer, self._options)
        if pool is None:
            raise NoCapacity(
                f"The cluster of the backend {self.name} has no node of the kind {offer.name} any more"
            )
        plan = manifests.PodPlan(
            launch=launch.without_secrets(),
            pool=pool,
            options=self._options,
            namespace=self._namespace_of(launch),
            server_tag=self._tag,
            agent_name=manifests.agent_map_name(await agent_archive(), self._tag),
        )
        secret = manifests.build_secret(plan, {}, "(the uid of the Job)")
        ticket = json.dumps(manifests.build_ticket(plan), indent=1)
        secret["data"] = dict.fromkeys(secret["data"], f"(base64 of) {ticket}")
        texts = (("Job", manifests.build_job(plan)), ("Secret", secret))
        return [
            NativeRequest(
                title=f"{kind} {plan.name} in namespace {plan.namespace}",
                language="yaml",
                text=yaml.safe_dump(manifest, sort_keys=False),
            )
            for kind, manifest in texts
        ]

    async def close(self) -> None:
        """Disconnect from the cluster. The pods keep running."""
        await self._lists.close()
        if self._opened is not None:
            cluster, tracker = self._opened
            await tracker.close()
            await cluster.close()
            self._opened = None

    # -- the connection ---------------------------------------------------------------------------------------

    def _connection(self) -> tuple[Cluster, PodTracker]:
        if self._opened is None:
            cluster = Cluster(load_config(self._options))
            watched = ALL_NAMESPACES if self._options.uses_all_namespaces else self._fixed_namespace(cluster)
            labels = {manifests.SERVER_LABEL: self._tag}
            self._opened = cluster, PodTracker(cluster, watched, labels, self._on_change)
        return self._opened

    def _fixed_namespace(self, cluster: Cluster) -> str:
        return self._options.namespace or cluster.namespace

    def _namespace_of(self, launch: LaunchRequest) -> str:
        cluster, _ = self._connection()
        fields = {"project": launch.project, "organisation": launch.organisation}
        namespace = self._fixed_namespace(cluster)
        for field, value in fields.items():
            namespace = namespace.replace(f"{{{field}}}", value)
        if not re.fullmatch(LABEL, namespace):
            raise LaunchRefused(
                f"{namespace[:100]!r} is not a valid namespace",
                hint=f"The backend {self.name} makes it from {self._options.namespace!r}. Rename the project, or "
                "change the option `namespace`.",
            )
        return namespace

    def _known_namespace(self, handle: Handle) -> str:
        """Return the namespace of an attempt; empty if it is not known."""
        cluster, _ = self._connection()
        fixed = "" if self._options.uses_all_namespaces else self._fixed_namespace(cluster)
        return str(handle.native.get("namespace") or fixed)

    def _require_route(self, launch: LaunchRequest) -> None:
        cluster, _ = self._connection()
        if _is_loopback(launch.agent_url) and not launch.relay and not _is_loopback(cluster.url):
            raise LaunchRefused(
                f"Pods cannot reach the server at {launch.agent_url}",
                hint="Set `server.agent_host` and `server.agent_url` to an address that pods can reach, or set "
                "`relay=storage` on the backend.",
            )

    # -- launch -----------------------------------------------------------------------------------------------

    async def _store_agent(self, namespace: str) -> str:
        """Store the agent in the namespace, and return the name of its ConfigMap.

        Nothing of an attempt exists yet, so an answer that was lost does not make the outcome of the launch unknown.
        """
        try:
            return await self._agents.store(self._connection()[0], namespace)
        except AnswerLost as error:
            raise BackendUnavailable(str(error)) from error

    async def _create_all(self, plans: Sequence[manifests.PodPlan]) -> None:
        """Create the Jobs and Secrets of all nodes. If one is refused, delete those that were created.

        After a LaunchError nothing is left. Raise AnswerLost if that is not certain.
        """
        created: list[manifests.PodPlan] = []
        try:
            for plan in plans:
                await self._create(plan, created)
        except LaunchError as error:
            if isinstance(error, LaunchRefused):
                await self._delete_created(created, error)
            elif created:
                raise AnswerLost(f"Not all objects of {plans[0].name} could be created: {error}") from error
            raise

    async def _create(self, plan: manifests.PodPlan, created: list[manifests.PodPlan]) -> None:
        """Create the Job and the Secret of one node. Adds the plan to `created` when its Job exists."""
        cluster, tracker = self._connection()
        try:
            job = await cluster.create(manifests.build_job(plan))
        except AlreadyExists:
            job = await self._own_job(plan)
        created.append(plan)
        tracker.add_job(job)
        secret = manifests.build_secret(plan, manifests.build_ticket(plan), job["metadata"]["uid"])
        with contextlib.suppress(AlreadyExists):
            await cluster.create(secret)

    async def _delete_created(self, created: Sequence[manifests.PodPlan], refusal: LaunchRefused) -> None:
        """Delete the Jobs of a launch that was refused."""
        cluster, _ = self._connection()
        for plan in created:
            try:
                await cluster.delete("Job", plan.name, plan.namespace)
            except LaunchError as error:
                text = f"The launch was refused ({refusal}), and its Job {plan.name} could not be deleted: {error}"
                raise AnswerLost(text) from error

    async def _own_job(self, plan: manifests.PodPlan) -> Json:
        """Return the Job of this name, which exists. Raise AnswerLost if it cannot be read, because it may be ours."""
        cluster, _ = self._connection()
        try:
            job = await cluster.get("Job", plan.name, plan.namespace)
        except BackendUnavailable as error:
            raise AnswerLost(str(error)) from error
        if job is None or not self._is_own(job):
            raise LaunchRefused(
                f"The namespace {plan.namespace} has a Job {plan.name} that is not of this backend",
                hint="Another server may use the same namespace with a copy of this database. Delete the Job.",
            )
        return job

    def _is_own(self, job: Json) -> bool:
        labels = job["metadata"].get("labels") or {}
        return bool(labels.get(manifests.SERVER_LABEL) == self._tag)

    # -- probe ------------------------------------------------------------------------------------------------

    def _observe(
        self, attempt: str, name: str, tracked: TrackedPod, nodes: Mapping[str, NodeInfo] | None
    ) -> Observation:
        pod = tracked.pod
        if pod is None:
            if tracked.job is None:
                return Observation(state=MachineState.EXITED, detail="a replaced pod is being deleted")
            return self._observe_job(tracked.job, pod_was_seen=tracked.was_seen)
        is_ending = attempt in self._ending
        if nodes is not None and status.is_running(pod):
            node = nodes.get(pod["spec"].get("nodeName"))
            if node is None:
                return status.lost_node(pod)
            if is_ending and status.is_marked_for_deletion(pod) and not node.is_ready:
                return status.unreachable_node(pod)
        limits = self._limits(tracked.job["spec"]["template"] if tracked.job is not None else pod)
        return status.observe_pod(pod, limits, time.time(), job=tracked.job, deleted_by_us=is_ending)

    def _observe_job(self, job: Json, *, pod_was_seen: bool) -> Observation:
        limits = self._limits(job["spec"]["template"])
        return status.observe_job_without_pod(job, pod_was_seen=pod_was_seen, limits=limits, now=time.time())

    def _limits(self, pod: Json) -> status.StatusLimits:
        is_named = status.image_of(pod) != self._options.image
        return status.StatusLimits(
            start_limit_s=self._options.start_limit_s,
            schedule_limit_s=self._options.schedule_limit_s,
            image_of_job=is_named,
        )

    async def _nodes_of(self, members: Mapping[str, TrackedPod]) -> Mapping[str, NodeInfo] | None:
        """Return the cluster's nodes if a pod of the attempt runs; None if they cannot be listed.

        A node may have joined after the last list, so one that is missing there is looked for again.
        """
        pods = [member.pod for member in members.values() if member.pod is not None]
        wanted = {pod["spec"].get("nodeName") for pod in pods if status.is_running(pod)}
        if not wanted:
            return None
        try:
            nodes = (await self._lists.nodes(NODES_AGE_S)).by_name
            return nodes if wanted <= nodes.keys() else (await self._lists.nodes(0)).by_name
        except AnygpuError:  # then the pod's own status is all that is known
            return None

    async def _confirm_gone(self, handle: Handle) -> Observation:
        """Ask the API server whether the attempt is gone, because a watch may lag."""
        cluster, tracker = self._connection()
        if namespace := self._known_namespace(handle):
            for name in _names(handle):
                job = await cluster.get("Job", name, namespace)
                if job is not None and self._is_own(job):
                    tracker.add_job(job)
                    return self._observe_job(job, pod_was_seen=False)
        if not tracker.was_seen(handle.name):
            labels = {manifests.SERVER_LABEL: self._tag, manifests.ATTEMPT_LABEL: handle.name}
            pods, _ = await cluster.list_objects("Pod", self._watched_namespace(), labels, keep=bool)
            if pods:
                return Observation(state=MachineState.RUNNING, detail="the pod still exists")
        tracker.forget(handle.name)
        self._ending.discard(handle.name)
        if namespace:
            await self._agents.remove(cluster, namespace, lambda: self._is_unused(namespace))
        return Observation(state=MachineState.GONE, detail="the cluster has no Job and no pod of the attempt")

    def _watched_namespace(self) -> str:
        cluster, _ = self._connection()
        return ALL_NAMESPACES if self._options.uses_all_namespaces else self._fixed_namespace(cluster)

    # -- terminate --------------------------------------------------------------------------------------------

    async def _delete_unseen(self, handle: Handle) -> None:
        """Delete the Jobs of an attempt that no watch has reported yet."""
        cluster, _ = self._connection()
        namespace = self._known_namespace(handle)
        for name in _names(handle) if namespace else ():
            job = await cluster.get("Job", name, namespace)
            if job is not None and self._is_own(job):
                await cluster.delete("Job", name, namespace)

    async def _delete_member(
        self, name: str, member: TrackedPod, nodes: Mapping[str, NodeInfo] | None
    ) -> None:
        cluster, _ = self._connection()
        if member.job is not None:
            namespace = member.job["metadata"]["namespace"]
            self._agents.remember(namespace, member.job)
            await cluster.delete("Job", name, namespace)
        for pod in [*member.pods.values()]:
            if not _is_being_deleted(pod, END_GRACE_S):
                is_lost = (
                    nodes is not None and status.is_running(pod) and pod["spec"].get("nodeName") not in nodes
                )
                grace_s = 0.0 if is_lost else END_GRACE_S
                metadata = pod["metadata"]
                await cluster.delete("Pod", metadata["name"], metadata["namespace"], grace_s=grace_s)

    def _is_unused(self, namespace: str) -> bool:
        """Return whether no attempt is left in the namespace, and none is being launched."""
        _, tracker = self._connection()
        return not self._launching and not tracker.has_attempt_in(namespace)

    def _handle_of(self, name: str, members: dict[str, TrackedPod]) -> Handle:
        namespace = next((member.namespace for member in members.values() if member.namespace), "")
        return Handle(name=name, native={"namespace": namespace} if namespace else {})


def _names(handle: Handle) -> list[str]:
    """Return the names of the Jobs that an attempt may have."""
    return [
        node_name(handle.name, node) for node in range(min(MAX_NODES, int(handle.native.get("nodes", 1))))
    ]


def _combine(observed: Sequence[Observation], missing: int) -> Observation:
    """Return the state of a gang: it runs if all its pods run, and it has ended if one has ended."""
    observed = [each for each in observed if each.state is not MachineState.ABSENT] or observed
    ended = [each for each in observed if each.state is MachineState.EXITED]
    if ended:
        return next((each for each in ended if each.preempted or each.end_cause or each.failure), ended[0])
    if missing > 0 and any(each.state is MachineState.RUNNING for each in observed):
        return Observation(state=MachineState.EXITED, detail=f"{missing} pods of the attempt no longer exist")
    waiting = [each for each in observed if each.state is MachineState.PENDING]
    chosen = waiting or [each for each in observed if each.preempted] or observed
    return next((each for each in chosen if each.failure), chosen[0])


def _is_being_deleted(pod: Json, within_s: float) -> bool:
    metadata = pod["metadata"]
    grace = metadata.get("deletionGracePeriodSeconds")
    return metadata.get("deletionTimestamp") is not None and grace is not None and grace <= within_s


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
