"""Warnings about GPU, backend and secret names in a job that the server does not know."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anygpu.sdk.client import Client


def submission_warnings(client: "Client", spec: Mapping[str, Any]) -> list[str]:
    """Sentences for who submits it; the job waits all the same, since a machine may be added."""
    if not any(spec.get(part) for part in ("resources", "placement", "secrets")):
        return []
    from anygpu.spec import from_mapping

    asked = from_mapping(spec)
    kind = asked.resources.gpu.kind if asked.resources.gpu else None
    allowed = asked.placement.allowed or ()
    secrets = set(asked.secrets.values())
    return [
        *gpu_warnings(kind or ""),
        *backend_warnings(allowed, _backend_names(client) if allowed else ()),
        *secret_warnings(secrets, _secret_names(client) if secrets else None),
    ]


def gpu_warnings(kind: str) -> list[str]:
    from anygpu.plan.hardware import gpus

    if not kind or gpus.is_known(kind):
        return []
    near = gpus.closest_kind(kind)
    meant = f"did you mean {near!r}?" if near else "`anygpu catalog show` lists those that are known."
    return [f"nobody knows a GPU {kind!r}; {meant} The job waits for a machine that has one"]


def backend_warnings(wanted: Collection[str], known: Collection[str]) -> list[str]:
    from difflib import get_close_matches

    from anygpu.spec.shorthand import STRATEGIES

    missing = [name for name in wanted if name not in known] if known else []
    said = []
    for name in missing:
        close = get_close_matches(name, [*STRATEGIES, *known], n=1, cutoff=0.6)
        meant = f"did you mean {close[0]!r}?" if close else f"there is {', '.join(known)}."
        said.append(f"there is no backend {name!r}; {meant} `anygpu backend add` adds one")
    return said


def secret_warnings(wanted: Collection[str], known: Collection[str] | None) -> list[str]:
    missing = [] if known is None else sorted(set(wanted) - set(known))
    return [
        f"there is no secret {name!r}; the job fails unless `anygpu secret set {name}` comes before it starts"
        for name in missing
    ]


def _secret_names(client: "Client") -> list[str] | None:
    """None where the server does not tell them to this person."""
    from anygpu.errors import AnygpuError

    try:
        return [each["name"] for each in client.secrets()["secrets"]]
    except AnygpuError:
        return None


def planned_backend_warnings(client: "Client", wanted: Collection[str]) -> list[str]:
    """A plan also knows the places of the catalog, where nothing can be submitted to yet."""
    from anygpu.plan.catalog import terms

    known = _backend_names(client) if wanted else []
    return backend_warnings(wanted, [*known, *terms()]) if known else []


def _backend_names(client: "Client") -> list[str]:
    """None where the server does not tell them to this person."""
    from anygpu.errors import AnygpuError

    try:
        return [each["name"] for each in client.backends.list()["backends"]]
    except AnygpuError:
        return []
