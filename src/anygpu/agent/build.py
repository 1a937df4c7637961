"""Build the agent as one file, anygpu-agent.pyz. The same sources always give the same bytes."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile

from anygpu.agent.files import write_atomic
from anygpu.agent.prepare.environment import LIBRARY_FILES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SHEBANG = b"#!/usr/bin/env python3\n"
FIXED_DATE = (1980, 1, 1, 0, 0, 0)
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

# Python compiles every module at each import from a zip file. The launcher therefore unpacks the archive once into the
# user's cache, in a directory named after the hash of its contents. Where that fails, the agent runs from the zip file.
LAUNCHER = """\
import os
import sys

KEY = "{key}"


def unpacked_directory():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    directory = os.path.join(base, "anygpu", "agent", KEY)
    if not os.path.isdir(directory):
        unpack(directory)
    status = os.stat(directory)
    if status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise OSError("another user may have written to " + directory)
    return directory


def unpack(directory):
    import zipfile

    draft = directory + "." + str(os.getpid())
    os.makedirs(draft, mode=0o700)
    with zipfile.ZipFile(sys.path[0]) as archive:
        archive.extractall(draft, [name for name in archive.namelist() if name.startswith("anygpu/")])
    try:
        os.rename(draft, directory)
    except OSError:
        if not os.path.isdir(directory):
            raise


try:
    sys.path.insert(0, unpacked_directory())
except OSError:
    pass

from anygpu.agent.main import main

sys.exit(main(sys.argv[1:]))
"""


def build_pyz(target: str | os.PathLike[str]) -> str:
    """Write the archive to `target` and return its SHA-256."""
    members = dict(_source_files())
    key = hashlib.sha256(repr(sorted(members.items())).encode()).hexdigest()[:32]
    buffer = io.BytesIO()
    buffer.write(SHEBANG)
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in [("__main__.py", LAUNCHER.format(key=key).encode()), *sorted(members.items())]:
            archive.writestr(_zip_entry(name), data)
    write_atomic(os.fspath(target), buffer.getvalue(), mode=0o755)
    return hashlib.sha256(buffer.getvalue()).hexdigest()


def source_command(python: str) -> list[str]:
    """Return the command that starts the agent from the installed package, without a .pyz file.

    `-I -S` keep the user's and the system's packages off the import path, which makes the start faster.
    """
    return [python, "-I", "-S", os.path.join(PACKAGE, "agent", "__main__.py")]


def _source_files() -> Iterator[tuple[str, bytes]]:
    for name in LIBRARY_FILES:
        yield _read_source(name)
    # The trainers are no part of the agent, but with them every machine can run a trainer's job.
    for package in ("agent", "trainers"):
        for folder, _, names in os.walk(os.path.join(PACKAGE, package)):
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
