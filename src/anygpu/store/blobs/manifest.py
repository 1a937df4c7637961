"""Manifests: lists of the files and chunks of a checkpoint or artifact.

A file is uploaded in chunks of at most 256 MiB. Manifests come from agents, which are not trusted, so every
field is validated.
"""

import hashlib
import json
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from anygpu.errors import InvalidSpec, Problem, TooLarge, UnsafePath

MAX_PATH_BYTES = 1024


def require_safe_path(value: object, place: str = "path") -> str:
    """Return the path. Raise UnsafePath unless it is relative and stays inside its directory."""
    fault = _path_fault(value)
    if fault:
        text = repr(value)[:200]
        raise UnsafePath(
            f"{place} {text} is not a valid path: {fault}.",
            hint="Use relative paths that stay inside the directory.",
        )
    return str(value)


def _path_fault(value: object) -> str:
    if not isinstance(value, str) or not value:
        return "it must be a string that is not empty"
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in value):
        return "it contains control characters or is not valid Unicode"
    if len(value.encode()) > MAX_PATH_BYTES:
        return f"it is longer than {MAX_PATH_BYTES} bytes"
    if "\\" in value:
        return "it contains a backslash"
    if any(part in ("", ".", "..") for part in value.split("/")):
        return "it is absolute, ends with `/`, or contains `//`, `.` or `..`"
    return ""


def require_valid_tree(paths: Iterable[str]) -> None:
    """Raise UnsafePath if a path occurs twice, or if one path is both a file and a directory."""
    seen: set[str] = set()
    for path in sorted(paths, key=lambda path: path.split("/")):
        if path in seen:
            raise UnsafePath(f"The file {path!r} is listed twice.", hint="List each file once.")
        above = next((parent for parent in _parents(path) if parent in seen), None)
        if above is not None:
            raise UnsafePath(
                f"The file {path!r} is inside {above!r}, which is also listed as a file.",
                hint="Rename one of them.",
            )
        seen.add(path)


def _parents(path: str) -> Iterable[str]:
    parts = path.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts)))


MAX_CHUNK_BYTES = 256 * 1024 * 1024
MAX_FILES = 10_000
MAX_CHUNKS = 20_000  # five terabytes at most
MAX_NUMBER = 2**53  # every JSON reader can represent it

UNITS = ("step", "epoch", "count")

ManifestKind = Literal["checkpoint", "artifact"]
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestFile:
    path: str
    size: int
    sha256: str
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The files of a checkpoint at one step, or the single file of an artifact."""

    kind: ManifestKind
    files: tuple[ManifestFile, ...]
    step: int = 0
    at: float = 0.0  # unix seconds by the agent's clock; never used for decisions
    world_size: int = 1
    unit: str = ""  # what `step` counts: one of UNITS; empty if unknown
    epoch: int | None = None  # completed epochs, if the script reports them

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    def chunks(self) -> dict[str, Chunk]:
        """Return each different chunk once, by its sha256, in the order of the files."""
        return {chunk.sha256: chunk for file in self.files for chunk in file.chunks}

    def to_bytes(self) -> bytes:
        """Encode the manifest canonically: equal manifests give equal bytes."""
        body = {
            "kind": self.kind,
            "files": [_file_to_json(file) for file in self.files],
            "step": self.step,
            "at": self.at,
            "world_size": self.world_size,
            **({"unit": self.unit} if self.unit else {}),
            **({"epoch": self.epoch} if self.epoch is not None else {}),
        }
        return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()

    def id_for(self, attempt: int) -> str:
        return hashlib.sha256(b"%d\n" % attempt + self.to_bytes()).hexdigest()


def _file_to_json(file: ManifestFile) -> dict[str, Any]:
    """Convert a file to JSON types.

    `asdict` would be too slow for a checkpoint with twenty thousand chunks.
    """
    chunks = [{"size": chunk.size, "sha256": chunk.sha256} for chunk in file.chunks]
    return {"path": file.path, "size": file.size, "sha256": file.sha256, "chunks": chunks}


def parse_checkpoint_manifest(untrusted: object) -> Manifest:
    """Parse the manifest of a checkpoint in a request body. Raises InvalidSpec, UnsafePath or TooLarge."""
    body = _require_mapping(untrusted, "manifest")
    manifest = Manifest(
        kind="checkpoint",
        files=tuple(_parse_files(body.get("files"))),
        step=_require_integer(body, "step", "", 0, MAX_NUMBER),
        at=_require_seconds(body.get("at", 0.0)),
        world_size=_require_integer({"world_size": 1, **body}, "world_size", "", 1, 1_000_000),
        unit=_parse_unit(body),
        epoch=None if body.get("epoch") is None else _require_integer(body, "epoch", "", 0, MAX_NUMBER),
    )
    return _validate(manifest)


def _parse_unit(body: Mapping[str, Any]) -> str:
    unit = body.get("unit")
    return unit if isinstance(unit, str) and unit in UNITS else ""


def parse_artifact_manifest(untrusted: object) -> Manifest:
    body = _require_mapping(untrusted, "manifest")
    file = {**_require_mapping(body.get("file"), "file"), "path": body.get("name")}
    return _validate(Manifest(kind="artifact", files=(_parse_file(file, "file"),)))


def decode_manifest(data: bytes) -> Manifest:
    """Decode a stored manifest (list of files).

    Raises ValueError, InvalidSpec or a similar error if the manifest is damaged.
    """
    body = json.loads(data)
    if body["kind"] == "artifact":
        return parse_artifact_manifest({"name": body["files"][0]["path"], "file": body["files"][0]})
    return parse_checkpoint_manifest(body)


def _validate(manifest: Manifest) -> Manifest:
    require_valid_tree([file.path for file in manifest.files])
    sizes: dict[str, int] = {}
    for chunk in (chunk for file in manifest.files for chunk in file.chunks):
        if sizes.setdefault(chunk.sha256, chunk.size) != chunk.size:
            raise _invalid_field(
                "chunks",
                chunk.sha256,
                "two chunks have this sha256 but different sizes; send the size of its content",
            )
    if len(sizes) > MAX_CHUNKS:
        raise TooLarge(
            f"The checkpoint or artifact has {len(sizes)} chunks; the limit is {MAX_CHUNKS}. Use larger "
            "chunks."
        )
    return manifest


def _parse_files(value: object) -> Iterator[ManifestFile]:
    files = _require_list(value, "files", MAX_FILES)
    if not files:
        raise _invalid_field("files", [], "the checkpoint has no files; list at least one")
    for index, file in enumerate(files):
        yield _parse_file(_require_mapping(file, f"files[{index}]"), f"files[{index}]")


def _parse_file(value: Mapping[str, Any], place: str) -> ManifestFile:
    chunks = tuple(_parse_chunks(value.get("chunks"), f"{place}.chunks"))
    file = ManifestFile(
        path=require_safe_path(value.get("path"), f"{place}.path"),
        size=_require_integer(value, "size", place, 0, MAX_NUMBER),
        sha256=_require_sha256(value, place),
        chunks=chunks,
    )
    _check_file(file, place)
    return file


def _check_file(file: ManifestFile, place: str) -> None:
    held = sum(chunk.size for chunk in file.chunks)
    if held != file.size:
        raise _invalid_field(
            f"{place}.size",
            file.size,
            f"must be {held}, the sum of the sizes of the file's chunks; correct one of them",
        )
    expected = {0: hashlib.sha256(b"").hexdigest(), 1: file.chunks[0].sha256 if file.chunks else ""}
    if file.sha256 != expected.get(len(file.chunks), file.sha256):
        raise _invalid_field(
            f"{place}.sha256",
            file.sha256,
            "does not match the sha256 of the file's chunks; read the file again",
        )


def _parse_chunks(value: object, place: str) -> Iterator[Chunk]:
    for index, item in enumerate(_require_list(value, place, MAX_CHUNKS)):
        here = f"{place}[{index}]"
        chunk = _require_mapping(item, here)
        yield Chunk(
            size=_require_integer(chunk, "size", here, 1, MAX_CHUNK_BYTES),
            sha256=_require_sha256(chunk, here),
        )


def is_sha256(value: object) -> bool:
    return isinstance(value, str) and len(value) == 64 and set(value) <= set("0123456789abcdef")


def _require_sha256(value: Mapping[str, Any], place: str) -> str:
    digest = value.get("sha256")
    if not is_sha256(digest):
        raise _invalid_field(f"{place}.sha256", digest, "must be 64 lower-case hexadecimal digits")
    return str(digest)


def _require_integer(value: Mapping[str, Any], name: str, place: str, least: int, max_count: int) -> int:
    number = value.get(name)
    where = f"{place}.{name}" if place else name
    if type(number) is not int or number < least:
        raise _invalid_field(where, number, f"must be a whole number of at least {least}")
    if number > max_count:
        raise TooLarge(f"The field {where} is {number}, which is too large. Send at most {max_count}.")
    return number


def _require_seconds(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < MAX_NUMBER:
        raise _invalid_field("at", value, "must be a time in Unix seconds, such as 1767225600")
    return float(value)


def _require_mapping(value: object, place: str) -> Mapping[str, Any]:
    return _require_type(value, dict, place, "must be a JSON object")


def _require_list(value: object, place: str, max_count: int) -> Sequence[Any]:
    items: list[Any] = _require_type(value, list, place, "must be a list")
    if len(items) > max_count:
        raise TooLarge(
            f"The field {place} has {len(items)} items, which are too many. Send at most {max_count}."
        )
    return items


def _require_type(value: object, wanted: type[_T], place: str, message: str) -> _T:
    if not isinstance(value, wanted):
        raise _invalid_field(place, value, message)
    return value


def _invalid_field(place: str, value: object, message: str) -> InvalidSpec:
    brief = value if isinstance(value, str | int | float | None) else type(value).__name__
    return InvalidSpec([Problem(place, brief[:200] if isinstance(brief, str) else brief, message)])
