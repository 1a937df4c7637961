"""Manifests: what a checkpoint or an artifact consists of. They come from agents: nothing in them is believed."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from anygpu.errors import InvalidSpec, Problem, TooLarge
from anygpu.store.paths import checked_path, checked_tree

MAX_CHUNK_BYTES = 256 * 1024 * 1024
MAX_FILES = 10_000
MAX_CHUNKS = 20_000  # five terabytes at most
MAX_NUMBER = 2**53  # what every JSON reader can hold

Kind = Literal["checkpoint", "artifact"]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    path: str
    size: int
    sha256: str
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A checkpoint's files at one step, or the one file of an artifact."""

    kind: Kind
    files: tuple[File, ...]
    step: int = 0
    at: float = 0.0  # the agent's clock: shown, never decided upon
    world_size: int = 1

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def chunks(self) -> dict[str, Chunk]:
        """Each different chunk once, in order."""
        return {chunk.sha256: chunk for file in self.files for chunk in file.chunks}

    def to_bytes(self) -> bytes:
        """Canonical: the same manifest is always the same bytes."""
        body = {
            "kind": self.kind,
            "files": [_plain(file) for file in self.files],
            "step": self.step,
            "at": self.at,
            "world_size": self.world_size,
        }
        return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()

    def id_in(self, attempt: int) -> str:
        return hashlib.sha256(b"%d\n" % attempt + self.to_bytes()).hexdigest()


def _plain(file: File) -> dict[str, Any]:
    """By hand: `asdict` takes several times as long, and a checkpoint may have twenty thousand chunks."""
    chunks = [{"size": chunk.size, "sha256": chunk.sha256} for chunk in file.chunks]
    return {"path": file.path, "size": file.size, "sha256": file.sha256, "chunks": chunks}


def checkpoint_from(untrusted: object) -> Manifest:
    """The manifest in a request's body: InvalidSpec, UnsafePath or TooLarge say what is wrong with it."""
    body = _mapping(untrusted, "manifest")
    manifest = Manifest(
        kind="checkpoint",
        files=tuple(_files(body.get("files"))),
        step=_integer(body, "step", "", 0, MAX_NUMBER),
        at=_seconds(body.get("at", 0.0)),
        world_size=_integer({"world_size": 1, **body}, "world_size", "", 1, 1_000_000),
    )
    return _checked(manifest)


def artifact_from(untrusted: object) -> Manifest:
    body = _mapping(untrusted, "manifest")
    file = {**_mapping(body.get("file"), "file"), "path": body.get("name")}
    return _checked(Manifest(kind="artifact", files=(_file(file, "file"),)))


def manifest_from_bytes(data: bytes) -> Manifest:
    """A stored manifest. ValueError, InvalidSpec and their kin mean that it was damaged."""
    body = json.loads(data)
    if body["kind"] == "artifact":
        return artifact_from({"name": body["files"][0]["path"], "file": body["files"][0]})
    return checkpoint_from(body)


def _checked(manifest: Manifest) -> Manifest:
    checked_tree([file.path for file in manifest.files])
    sizes: dict[str, int] = {}
    for chunk in (chunk for file in manifest.files for chunk in file.chunks):
        if sizes.setdefault(chunk.sha256, chunk.size) != chunk.size:
            raise _invalid("chunks", chunk.sha256, "the same sha256 is given with two sizes")
    if len(sizes) > MAX_CHUNKS:
        raise TooLarge(f"The manifest has {len(sizes)} chunks; {MAX_CHUNKS} is the limit.")
    return manifest


def _files(value: object) -> Iterator[File]:
    files = _sequence(value, "files", MAX_FILES)
    if not files:
        raise _invalid("files", [], "a checkpoint needs at least one file")
    for index, file in enumerate(files):
        yield _file(_mapping(file, f"files[{index}]"), f"files[{index}]")


def _file(value: Mapping[str, Any], place: str) -> File:
    chunks = tuple(_chunks(value.get("chunks"), f"{place}.chunks"))
    file = File(
        path=checked_path(value.get("path"), f"{place}.path"),
        size=_integer(value, "size", place, 0, MAX_NUMBER),
        sha256=_sha256(value, place),
        chunks=chunks,
    )
    _check_whole(file, place)
    return file


def _check_whole(file: File, place: str) -> None:
    held = sum(chunk.size for chunk in file.chunks)
    if held != file.size:
        raise _invalid(f"{place}.size", file.size, f"its chunks hold {held} bytes")
    known = {0: hashlib.sha256(b"").hexdigest(), 1: file.chunks[0].sha256 if file.chunks else ""}
    if file.sha256 != known.get(len(file.chunks), file.sha256):
        raise _invalid(f"{place}.sha256", file.sha256, "it does not agree with the file's chunks")


def _chunks(value: object, place: str) -> Iterator[Chunk]:
    for index, item in enumerate(_sequence(value, place, MAX_CHUNKS)):
        here = f"{place}[{index}]"
        chunk = _mapping(item, here)
        yield Chunk(size=_integer(chunk, "size", here, 1, MAX_CHUNK_BYTES), sha256=_sha256(chunk, here))


def is_sha256(value: object) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


def _sha256(value: Mapping[str, Any], place: str) -> str:
    digest = value.get("sha256")
    if not is_sha256(digest):
        raise _invalid(f"{place}.sha256", digest, "64 lower-case hex digits are needed")
    return str(digest)


def _integer(value: Mapping[str, Any], name: str, place: str, least: int, most: int) -> int:
    number = value.get(name)
    where = f"{place}.{name}" if place else name
    if type(number) is not int or number < least:
        raise _invalid(where, number, f"a whole number of {least} or more is needed")
    if number > most:
        raise TooLarge(f"{where} is {number}; {most} is the limit.")
    return number


def _seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MAX_NUMBER:
        raise _invalid("at", value, "unix seconds are needed")
    return float(value)


def _mapping(value: object, place: str) -> Mapping[str, Any]:
    return _typed(value, dict, place, "an object is needed")


def _sequence(value: object, place: str, most: int) -> Sequence[Any]:
    items: list[Any] = _typed(value, list, place, "a list is needed")
    if len(items) > most:
        raise TooLarge(f"{place} has {len(items)} items; {most} is the limit.")
    return items


def _typed(value: object, wanted: type[_T], place: str, message: str) -> _T:
    if not isinstance(value, wanted):
        raise _invalid(place, value, message)
    return value


def _invalid(place: str, value: object, message: str) -> InvalidSpec:
    shown = value if isinstance(value, str | int | float | None) else type(value).__name__
    return InvalidSpec([Problem(place, shown[:200] if isinstance(shown, str) else shown, message)])
