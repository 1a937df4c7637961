"""A dataset that is a path here, sent along with a job that may run where the path means nothing.

It is packed whole, cut into pieces, and only the pieces the server lacks are sent: broken off and started again it goes
on, and the same data for another job is not sent at all.
"""

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from anygpu.errors import AnygpuError, TooLarge
from anygpu.sdk.client import Client

PART_BYTES = 64 << 20
LOCAL = "local"
ANYWHERE = ("cheapest", "fastest", "balanced")


def with_dataset(client: Client, spec: dict[str, Any], *, here: bool) -> dict[str, Any]:
    """The spec with the pieces of its dataset, where that is a path of this machine and the job may leave it."""
    path = _path(spec.get("dataset"))
    if path is None or not (named_elsewhere(spec) or may_leave(spec, here)):
        return spec
    try:
        return {**spec, "dataset": {"path": str(path), "parts": send(client, path)}}
    except TooLarge:
        if named_elsewhere(spec):
            raise
        return spec  # where it runs here it needs no sending, and elsewhere it says what is missing


def send(client: Client, path: Path, part_bytes: int = PART_BYTES) -> list[str]:
    from anygpu.spec.workdir import pack_whole

    sent = []
    with pack_whole(path) as archive, archive.path.open("rb") as file:
        for piece in _pieces(file, part_bytes):
            sent.append(hashlib.sha256(piece).hexdigest())
            client.upload(sent[-1], piece)
    return sent


def named_elsewhere(spec: Mapping[str, Any]) -> bool:
    """Every backend the job may run on is named, and this machine is not among them."""
    allowed = set(_placement(spec).get("allowed") or ())
    return bool(allowed) and LOCAL not in allowed


def may_leave(spec: Mapping[str, Any], here: bool) -> bool:
    placement = _placement(spec)
    named = {*(placement.get("allowed") or ()), *(placement.get("fallbacks") or ())} - {LOCAL}
    return not here or bool(named) or placement.get("strategy") in ANYWHERE


def _placement(spec: Mapping[str, Any]) -> dict[str, Any]:
    """As the server will read it; a spec with errors in it is the server's to explain."""
    from anygpu.spec import from_mapping

    try:
        return from_mapping(spec).placement.model_dump()
    except AnygpuError:
        return {}


def _path(dataset: Any) -> Path | None:
    """A dataset given by a path that exists here and has not been sent yet."""
    if isinstance(dataset, Mapping):
        said = None if dataset.get("parts") else dataset.get("path")
    else:
        said = dataset if isinstance(dataset, str) and "://" not in dataset else None
    path = Path(str(said)).expanduser().absolute() if said else None
    return path if path is not None and path.exists() else None


def _pieces(file: IO[bytes], size: int) -> Iterator[bytes]:
    while piece := file.read(size):
        yield piece
