"""List the files of a working directory, and pack a dataset into a deterministic archive."""

import gzip
import hashlib
import os
import stat
import tarfile
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from anygpu.errors import Conflict, NotFound, TooLarge, UnsafePath
from anygpu.spec.ignore import OWN_IGNORE, rules_for

MAX_DATA_BYTES = 20 << 30
_COMPRESSION_LEVEL = 3  # nearly as small as level 9 for source code, in a third of the time
_MTIME_S = 315_619_200  # 2 January 1980: zip files, and so wheels, support no earlier time


@dataclass(frozen=True, slots=True)
class WorkdirArchive:
    """A tar.gz file on disk. Use it in a `with` block, or call `remove()` after sending it."""

    path: Path
    sha256: str
    size: int
    files: tuple[str, ...]

    def remove(self) -> None:
        self.path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()


@dataclass(frozen=True, slots=True)
class ArchiveEntry:
    """A file or symbolic link of the working directory.

    `link` is the target of a link, relative to the directory of the link.
    """

    name: str
    path: Path
    size: int
    executable: bool
    link: str | None = None


def list_files(
    root: Path, ignore: Sequence[str] = (), *, max_bytes: int, max_files: int
) -> list[ArchiveEntry]:
    """Return all files of a working directory that are not ignored, by name. Raises TooLarge beyond a limit."""
    entries = sorted(walk(root, ignore), key=lambda entry: entry.name)
    _check_size(entries, max_bytes, max_files)
    return entries


def pack_data(path: Path, *, into: Path | None = None, max_bytes: int = MAX_DATA_BYTES) -> WorkdirArchive:
    """Pack a dataset into an archive.

    `path` is a file, or a directory whose files are all packed; ignore rules do not apply.
    """
    entries = sorted(_list_data(path.resolve()), key=lambda entry: entry.name)
    total = sum(entry.size for entry in entries)
    if total > max_bytes:
        raise TooLarge(
            f"The dataset {path} has {_format_size(total)}, but at most {_format_size(max_bytes)} can be "
            "uploaded with a job.",
            hint="Put it on a web server or in a bucket, and give its URL with --dataset.",
            size=total,
        )
    return _pack_entries(entries, into)


def _list_data(base: Path) -> Iterator[ArchiveEntry]:
    if not base.is_dir():
        yield ArchiveEntry(base.name, base, base.stat().st_size, False)
        return
    for directory, folders, names in os.walk(base):
        for linked in (Path(directory, name) for name in folders):
            if linked.is_symlink():
                raise UnsafePath(
                    f"The dataset contains {linked}, a link to a directory, which cannot be uploaded.",
                    hint="Replace the link by a copy of the directory, or remove it.",
                )
        for path in (Path(directory, name) for name in names):
            if path.is_file():
                yield ArchiveEntry(
                    f"{base.name}/{path.relative_to(base).as_posix()}", path, path.stat().st_size, False
                )


def _pack_entries(entries: Sequence[ArchiveEntry], into: Path | None) -> WorkdirArchive:
    handle, name = tempfile.mkstemp(prefix="anygpu-workdir-", suffix=".tar.gz", dir=into)
    path = Path(name)
    try:
        with os.fdopen(handle, "wb") as raw:
            _write(raw, entries)
        with path.open("rb") as raw:
            digest = hashlib.file_digest(raw, "sha256").hexdigest()
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    return WorkdirArchive(path, digest, path.stat().st_size, tuple(entry.name for entry in entries))


def walk(root: Path, ignore: Sequence[str] = (), *, links: bool = True) -> Iterator[ArchiveEntry]:
    """Yield all files and symbolic links to pack. Sockets, pipes and devices are left out."""
    base = root.resolve()
    if not base.is_dir():
        raise NotFound(
            f"The working directory {root} is not a directory.",
            hint="Give the path of an existing directory.",
        )
    waiting = [(base, "", rules_for(base, ignore))]
    while waiting:
        directory, prefix, rules = waiting.pop()
        items = _scan(directory)
        inner_rules = rules.entering(directory, prefix, frozenset(item.name for item in items))
        for item in items:
            path = prefix + item.name
            if item.is_dir(follow_symlinks=False):
                if not inner_rules.ignores(path + "/", item.name):
                    waiting.append((Path(item.path), path + "/", inner_rules))
            elif (links or not item.is_symlink()) and not inner_rules.ignores(path, item.name):
                yield from _entry(item, path, base)


def _scan(directory: Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(directory) as items:
            return list(items)
    except PermissionError as error:
        raise _unreadable(directory) from error
    except FileNotFoundError:
        return []


def _entry(item: "os.DirEntry[str]", name: str, base: Path) -> Iterator[ArchiveEntry]:
    if item.is_symlink():
        yield ArchiveEntry(name, Path(item.path), 0, False, _relative_link(Path(item.path), name, base))
        return
    try:
        status = item.stat(follow_symlinks=False)
    except FileNotFoundError:
        return
    if stat.S_ISREG(status.st_mode):
        yield ArchiveEntry(name, Path(item.path), status.st_size, bool(status.st_mode & stat.S_IXUSR))


def _relative_link(path: Path, name: str, base: Path) -> str:
    """Return the target of a symbolic link relative to the link's directory.

    Raises UnsafePath if the target is outside the working directory.
    """
    target = path.readlink()
    absolute = os.path.normpath(path.parent / target)
    resolved = os.path.realpath(path)
    if not (Path(absolute).is_relative_to(base) and Path(resolved).is_relative_to(base)):
        raise UnsafePath(
            f"The link {name} points outside the working directory, to {target}.",
            hint=f"Give the data with --dataset, copy it into the directory, or add '{name}' to {OWN_IGNORE}.",
            path=name,
        )
    return os.path.relpath(absolute, path.parent).replace(os.sep, "/")


def _write(raw: IO[bytes], entries: Sequence[ArchiveEntry]) -> None:
    with (
        gzip.GzipFile(
            filename="", mode="wb", compresslevel=_COMPRESSION_LEVEL, fileobj=raw, mtime=0
        ) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for entry in entries:
            _add(tar, entry)


def _add(tar: tarfile.TarFile, entry: ArchiveEntry) -> None:
    info = tarfile.TarInfo(entry.name)
    info.mode = 0o755 if entry.executable else 0o644
    info.mtime = _MTIME_S
    if entry.link is not None:
        info.type, info.linkname, info.mode = tarfile.SYMTYPE, entry.link, 0o777
        tar.addfile(info)
        return
    try:
        with entry.path.open("rb") as content:
            info.size = os.fstat(content.fileno()).st_size
            tar.addfile(info, content)
    except PermissionError as error:
        raise _unreadable(entry.path) from error
    except OSError as error:
        raise Conflict(
            f"The file {entry.name} changed while it was being uploaded.",
            hint=f"Submit the job again, or add the file to {OWN_IGNORE} if the job does not need it.",
        ) from error


def _unreadable(path: Path) -> Conflict:
    return Conflict(
        f"{path} cannot be read, so it cannot be uploaded with the job.",
        hint=f"Change its permissions, or add it to {OWN_IGNORE} if the job does not need it.",
        path=str(path),
    )


def _check_size(entries: Sequence[ArchiveEntry], max_bytes: int, max_files: int) -> None:
    """Raise TooLarge, with the largest files and directories, if the entries exceed a limit."""
    total = sum(entry.size for entry in entries)
    if total <= max_bytes and len(entries) <= max_files:
        return
    largest = _largest(entries)
    listed = "\n".join(f"  {_format_size(size):>10}  {name}" for name, size in largest)
    raise TooLarge(
        f"The working directory has {_format_size(total)} in {len(entries):,} files; "
        f"the limit is {_format_size(max_bytes)} and {max_files:,} files. The largest:\n{listed}",
        hint=f"Add files that the job does not need to {OWN_IGNORE}, one per line, for example '/{largest[0][0]}'. "
        "Give large data with --dataset. The server's limit is the setting limits.snapshot_bytes.",
        size=total,
        biggest=[{"name": name, "size": size} for name, size in largest],
    )


def _largest(entries: Sequence[ArchiveEntry], count: int = 5) -> list[tuple[str, int]]:
    """Return the largest files and directories with their sizes, for messages.

    If one child makes up most of a directory, the child is listed instead of the directory.
    """
    sizes, children = _tree(entries)
    chosen, waiting = [], list(children[""])
    while waiting:
        name = waiting.pop()
        inner = children.get(name, set())
        if inner and max(sizes[child] for child in inner) >= 0.8 * sizes[name]:
            waiting.extend(inner)
        else:
            chosen.append((name, sizes[name]))
    return sorted(chosen, key=lambda item: (-item[1], item[0]))[:count]


def _tree(entries: Sequence[ArchiveEntry]) -> tuple[dict[str, int], dict[str, set[str]]]:
    """Return the size of each file and directory, and the children of each directory.

    Names of directories end in /.
    """
    sizes: dict[str, int] = defaultdict(int)
    children: dict[str, set[str]] = defaultdict(set)
    for entry in entries:
        above, name = "", entry.name
        for part in entry.name.split("/")[:-1]:
            children[above].add(f"{above}{part}/")
            above = f"{above}{part}/"
            sizes[above] += entry.size
        children[above].add(name)
        sizes[name] = entry.size
    return sizes, children


def _format_size(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
