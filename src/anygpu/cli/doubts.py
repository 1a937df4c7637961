"""What a job asks for that nobody may ever have: a misspelt GPU or place is said at once, not waited for in silence."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anygpu.sdk.client import Client


def remarks(client: "Client", spec: Mapping[str, Any]) -> list[str]:
    """Sentences for who submits it; the job waits all the same, since a machine may be added."""
    if not spec.get("resources") and not spec.get("placement"):
        return []
    from anygpu.spec import from_mapping

    asked = from_mapping(spec)
    kind = asked.resources.gpu.kind if asked.resources.gpu else None
    allowed = asked.placement.allowed or ()
    return [*about_gpu(kind or ""), *about_places(allowed, _places(client) if allowed else ())]


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


def _places(client: "Client") -> list[str]:
    """None where the server does not tell them to this person."""
    from anygpu.errors import AnygpuError

    try:
        return [each["name"] for each in client.backends.list()["backends"]]
    except AnygpuError:
        return []
