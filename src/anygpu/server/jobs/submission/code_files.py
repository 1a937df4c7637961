"""Read the code of a job that runs in place, from the user's directory, for the analyser."""

import os
from pathlib import Path, PurePosixPath

from anygpu.errors import AnygpuError
from anygpu.spec.ignore import DEFAULT_NAMES, DEFAULT_SUFFIXES
from anygpu.spec.jobspec import JobSpec
from anygpu.store.blobs.snapshots import SnapshotFile, Snapshots

MAX_ENTRIES = 5_000  # names that are looked at: the directory may contain millions of data files
MAX_TOTAL_BYTES = 16 * 1024 * 1024


def read_code(spec: JobSpec, directory: str) -> dict[str, bytes]:
    """Return the script and the small code and configuration files near it, by path.

    Paths are relative to the working directory. If the script is outside of it, they are relative to the
    directory of the script, except the path of the script itself, which is the one in the spec. Files that
    cannot be read are left out.
    """
    from anygpu.plan.analyse.job import job_script

    script = job_script(spec)
    root = Path(directory, spec.workdir.subdir if spec.workdir else "")
    if not script or not (root / script).is_file():
        return {}
    found = {script: _read(root / script)}
    if script.startswith("/") or ".." in PurePosixPath(script).parts:
        root = (root / script).resolve().parent
    left = MAX_TOTAL_BYTES - len(found[script])
    for path in _code_paths(root):
        name = path.relative_to(root).as_posix()
        text = b"" if name in found else _read(path)
        if text and len(text) <= left:
            found[name] = text
            left -= len(text)
    return found


async def read_snapshot_code(
    snapshots: Snapshots, organisation: str, spec: JobSpec, sha256: str
) -> dict[str, bytes]:
    """Return the script and the small code and configuration files of a snapshot, by path.

    Paths are relative to the directory in which the job starts; empty if the snapshot cannot be read.
    """
    from anygpu.plan.analyse.job import MAX_BYTES, MAX_FILES, READABLE_SUFFIXES

    prefix = f"{spec.workdir.subdir}/" if spec.workdir and spec.workdir.subdir else ""
    try:
        files = await snapshots.read(organisation, sha256)
        near = sorted((file for file in files if file.path.startswith(prefix)), key=_depth)
        code = [file for file in near if file.path.endswith(READABLE_SUFFIXES) and file.size <= MAX_BYTES]
        contents = {
            file.path.removeprefix(prefix): await snapshots.content(organisation, file)
            for file in code[:MAX_FILES]
            if file.link is None
        }
    except AnygpuError:
        return {}
    script = spec.script_in_copy
    if script in contents and spec.script is not None:
        contents[spec.script] = contents[script]
    return contents


def _depth(file: SnapshotFile) -> tuple[int, str]:
    return file.path.count("/"), file.path


def _code_paths(root: Path) -> list[Path]:
    """Return the paths of the code files below `root`, those near the root first."""
    from anygpu.plan.analyse.job import MAX_FILES, READABLE_SUFFIXES

    paths: list[Path] = []
    waiting, seen = [root], 0
    while waiting and seen < MAX_ENTRIES and len(paths) < MAX_FILES:
        for entry in _scan(waiting.pop(0), MAX_ENTRIES - seen):
            seen += 1
            if entry.name in DEFAULT_NAMES or entry.name.endswith(DEFAULT_SUFFIXES):
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append(Path(entry.path))
            elif entry.name.endswith(READABLE_SUFFIXES) and entry.is_file():
                paths.append(Path(entry.path))
    return paths[:MAX_FILES]


def _scan(directory: Path, limit: int) -> list["os.DirEntry[str]"]:
    entries: list[os.DirEntry[str]] = []
    try:
        with os.scandir(directory) as found:
            for entry in found:
                if len(entries) >= limit:
                    break
                entries.append(entry)
    except OSError:
        return []
    return sorted(entries, key=lambda entry: entry.name)


def _read(path: Path) -> bytes:
    """Return the content of a file; empty if it is too large or cannot be read."""
    from anygpu.plan.analyse.job import MAX_BYTES

    try:
        with path.open("rb") as file:
            text = file.read(MAX_BYTES + 1)
    except OSError:
        return b""
    return text if len(text) <= MAX_BYTES else b""
