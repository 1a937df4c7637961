"""What a job asks for that nobody may have: a misspelt GPU, place or secret is said at once, not found out later."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anygpu.sdk.client import Client


def remarks(client: "Client", spec: Mapping[str, Any]) -> list[str]:
    """Sentences for who submits it; the job waits all the same, since a machine may be added."""
    if not any(spec.get(part) for part in ("resources", "placement", "secrets")):
        return []
    from anygpu.spec import from_mapping

    asked = from_mapping(spec)
    kind = asked.resources.gpu.kind if asked.resources.gpu else None
    allowed = asked.placement.allowed or ()
    secrets = set(asked.secrets.values())
    return [
        *about_gpu(kind or ""),
        *about_places(allowed, _places(client) if allowed else ()),
        *about_secrets(secrets, _secrets(client) if secrets else None),
    ]


def about_gpu(kind: str) -> list[str]:
    from anygpu.plan import gpus

    if not kind or gpus.known(kind):
        return []
    near = gpus.nearest(kind)
    meant = f"did you mean {near!r}?" if near else "`anygpu catalog show` lists those that are known."
    return [f"nobody knows a GPU {kind!r}; {meant} The job waits for a machine that has one"]


def about_places(wanted: Collection[str], known: Collection[str]) -> list[str]:
    from difflib import get_close_matches

    from anygpu.spec.shorthand import STRATEGIES

    missing = [name for name in wanted if name not in known] if known else []
    said = []
    for name in missing:
        close = get_close_matches(name, [*STRATEGIES, *known], n=1, cutoff=0.6)
        meant = f"did you mean {close[0]!r}?" if close else f"there is {', '.join(known)}."
        said.append(f"there is no backend {name!r}; {meant} `anygpu backend add` adds one")
    return said


def about_secrets(wanted: Collection[str], known: Collection[str] | None) -> list[str]:
    missing = [] if known is None else sorted(set(wanted) - set(known))
    return [
        f"there is no secret {name!r}; the job fails unless `anygpu secret set {name}` comes before it starts"
        for name in missing
    ]


def _secrets(client: "Client") -> list[str] | None:
    """None where the server does not tell them to this person."""
    from anygpu.errors import AnygpuError

    try:
        return [each["name"] for each in client.secrets()["secrets"]]
    except AnygpuError:
        return None


def about_planned_places(client: "Client", wanted: Collection[str]) -> list[str]:
    """A plan also knows the places of the catalog, where nothing can be submitted to yet."""
    from anygpu.plan.catalog import terms

    known = _places(client) if wanted else []
    return about_places(wanted, [*known, *terms()]) if known else []


def _places(client: "Client") -> list[str]:
    """None where the server does not tell them to this person."""
    from anygpu.errors import AnygpuError

    try:
        return [each["name"] for each in client.backends.list()["backends"]]
    except AnygpuError:
        return []
