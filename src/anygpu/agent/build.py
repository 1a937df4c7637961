"""The agent as one file: `build_pyz` makes anygpu-agent.pyz, the same bytes from the same sources."""

from __future__ import annotations

import hashlib
import os
import zipfile

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SHEBANG = b"#!/usr/bin/env python3\n"
FIXED_DATE = (1980, 1, 1, 0, 0, 0)
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Importing from a zip compiles every module at every start. Unpacked once into the user's cache, under a name that is
# the hash of its contents, it starts as fast as an installed program; where that fails it runs from the zip.
LAUNCHER = """\
import os
import sys

KEY = "{key}"


def unpacked():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    place = os.path.join(base, "anygpu", "agent", KEY)
    if not os.path.isdir(place):
        unpack(place)
    about = os.stat(place)
    if about.st_uid != os.getuid() or about.st_mode & 0o022:
        raise OSError(place + " could have been written by someone else")
    return place


def unpack(place):
    import zipfile

    draft = place + "." + str(os.getpid())
    os.makedirs(draft, mode=0o700)
    with zipfile.ZipFile(sys.path[0]) as archive:
        archive.extractall(draft, [name for name in archive.namelist() if name.startswith("anygpu/")])
    try:
        os.rename(draft, place)
    except OSError:
        if not os.path.isdir(place):
            raise


try:
    sys.path.insert(0, unpacked())
except OSError:
    pass

from anygpu.agent.main import main

sys.exit(main(sys.argv[1:]))
"""


def build_pyz(target: str | os.PathLike[str]) -> str:
    """Write the archive to `target`, whole or not at all, and answer with its sha256."""
    members = dict(_source_files())
    key = hashlib.sha256(repr(sorted(members.items())).encode()).hexdigest()[:32]
    draft = f"{os.fspath(target)}.{os.getpid()}.tmp"
    with open(draft, "wb") as file:
        file.write(SHEBANG)
        with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, data in [("__main__.py", LAUNCHER.format(key=key).encode()), *sorted(members.items())]:
                archive.writestr(_zip_entry(name), data)
    os.chmod(draft, 0o755)
    os.replace(draft, target)
    with open(target, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def source_command(python: str) -> list[str]:
    """How a backend on this machine starts the agent without a .pyz.

    Nothing is imported but what it needs.
    """
    return [python, "-I", "-S", os.path.join(PACKAGE, "agent", "__main__.py")]


def _source_files() -> Iterator[tuple[str, bytes]]:
    for name in ("__init__.py", "job.py"):
        yield _read_source(name)
    for room in ("agent", "trainers"):  # the second is not the agent's: any machine can run a trainer's job
        for folder, _, names in os.walk(os.path.join(PACKAGE, room)):
            for name in names:
                if name.endswith(".py") and name != "build.py":
                    yield _read_source(os.path.relpath(os.path.join(folder, name), PACKAGE))


def _read_source(relative: str) -> tuple[str, bytes]:
    with open(os.path.join(PACKAGE, relative), "rb") as file:
        return f"anygpu/{relative}".replace(os.sep, "/"), file.read()


def _zip_entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, FIXED_DATE)
    entry.external_attr = 0o644 << 16
    return entry
