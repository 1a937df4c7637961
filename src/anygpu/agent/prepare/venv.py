"""Virtual environments with a job's requirements. They are cached and shared by all attempts on a machine.

Requirements are in one of three forms: `["numpy"]` is a list of packages, `["-r", "requirements.txt"]` names
a file that lists packages, and `["-r", "pyproject.toml"]` means the dependencies of that project. uv installs
them if it is on the PATH, else pip.
"""

from __future__ import annotations

import fcntl
import os
import re
import time

from anygpu.agent.files import new_sha256
from anygpu.agent.prepare import torch_builds
from anygpu.agent.prepare.environment import find_program
from anygpu.agent.prepare.installers import installer_variables
from anygpu.agent.prepare.queries import query_output
from anygpu.agent.run.process import CannotStart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import IO

    from anygpu.agent.prepare.commands import CommandResult

    Run = Callable[[Sequence[str], dict[str, str]], CommandResult]

READY_FILE = "anygpu-ready"
LOCK_POLL_S = 0.2
QUERY_TIMEOUT_S = 30.0
MAX_FILES = 100

PINNED = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)==(?P<version>[\w.!-]+)(?:\+auto)?$")
READ_VERSIONS = """
import sys, importlib.metadata as metadata
for name in sys.argv[1:]:
    print(metadata.version(name))
"""
HAS_MODERN_PIP = "import venv, pip; assert tuple(map(int, pip.__version__.split('.')[:2])) >= (22, 3)"

# pip contains a TOML parser for interpreters without tomllib.
READ_DEPENDENCIES = """
import sys
try:
    import tomllib
except ImportError:
    from pip._vendor import tomli as tomllib
with open(sys.argv[1], "rb") as file:
    print("\\n".join(tomllib.load(file)["project"].get("dependencies", [])))
"""


def cache_directory() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "anygpu")


def ensure_venv(
    python: str, requirements: list[str], cwd: str, run: Run, check_interrupted: Callable[[], None]
) -> str:
    """Return the Python interpreter of a virtual environment with these requirements.

    If all of them are pinned and `python` itself has these versions, return `python`. Otherwise the
    environment is created if it does not exist. `run` runs a command and writes its output to the job's
    log. `check_interrupted` is called while another job creates the same environment; it may raise to stop
    waiting.
    """
    if has_pinned_packages(python, requirements):
        return python
    requirements = torch_builds.with_builds(requirements)
    directory = os.path.join(cache_directory(), "environments", _cache_key(python, requirements, cwd))
    venv_python = os.path.join(directory, "bin", "python")
    os.makedirs(directory, exist_ok=True)
    with open(directory + ".lock", "w", encoding="utf-8") as lock:
        _lock(lock, check_interrupted)
        if not os.path.exists(os.path.join(directory, READY_FILE)):
            _create(python, directory, venv_python, requirements, cwd, run)
            with open(os.path.join(directory, READY_FILE), "w", encoding="utf-8") as ready:
                ready.write("\n".join(requirements) + "\n")
    return venv_python


def has_pinned_packages(python: str, requirements: list[str]) -> bool:
    """Return whether every requirement is of the form `name==version` and the interpreter has that version."""
    pins = [PINNED.match(each) for each in requirements]
    if not all(pins):
        return False
    names = [pin.group("name") for pin in pins if pin]
    found = _query([python, "-c", READ_VERSIONS, *names])
    wanted = [pin.group("version") for pin in pins if pin]
    return found is not None and [line.partition("+")[0] for line in found.split("\n")] == wanted


def _lock(lock: IO[str], check_interrupted: Callable[[], None]) -> None:
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            check_interrupted()
            time.sleep(LOCK_POLL_S)


def _create(
    python: str, directory: str, venv_python: str, requirements: list[str], cwd: str, run: Run
) -> None:
    env = _installer_environment()
    uv = find_program("uv")
    if uv:
        _run_or_fail(
            run,
            [uv, "venv", "--allow-existing", "--system-site-packages", "--python", python, directory],
            env,
        )
        _run_or_fail(run, [uv, "pip", "install", "--python", venv_python, *_for_uv(requirements)], env)
        _write_pip(directory, f'exec "{uv}" pip "$@" --python "{venv_python}"')
        return
    packages = _requirements_for_pip(python, requirements, cwd)
    pip = _create_with_pip(python, directory, venv_python, run, env)
    if packages:
        _run_or_fail(run, [*pip, "install", "--disable-pip-version-check", *packages], env)


def _for_uv(requirements: list[str]) -> list[str]:
    """Return the requirements with the uv option that searches all package indexes for a version, as pip does."""
    has_index = "--extra-index-url" in requirements
    return ["--index-strategy", "unsafe-best-match", *requirements] if has_index else requirements


def _installer_environment() -> dict[str, str]:
    kept = installer_variables(os.environ)
    others = ("ANYGPU_", "PYTHON", "PIP_", "UV_")
    return {name: value for name, value in os.environ.items() if not name.startswith(others)} | kept


def _create_with_pip(
    python: str, directory: str, venv_python: str, run: Run, env: dict[str, str]
) -> list[str]:
    """Create the virtual environment without uv, and return the pip command that installs into it."""
    venv = [python, "-m", "venv", "--system-site-packages"]
    if _runs_without_error(python, HAS_MODERN_PIP):
        # Faster by seconds than installing pip, and works on Debian without ensurepip.
        _run_or_fail(run, [*venv, "--without-pip", directory], env)
        _write_pip(directory, f'exec "{python}" -m pip --python "{venv_python}" "$@"')
        return [python, "-m", "pip", "--python", venv_python]
    if not _runs_without_error(python, "import venv, ensurepip"):
        raise CannotStart(
            f"requirements: no virtual environment can be created on this machine: {python} has no venv "
            "module or a pip older than 22.3, and uv is not installed. Install uv or python3-venv on the "
            "machine or in its image."
        )
    _run_or_fail(run, [*venv, directory], env)
    return [venv_python, "-m", "pip"]


def _write_pip(directory: str, line: str) -> None:
    """Write a `pip` command into the environment, for use by set-up commands."""
    path = os.path.join(directory, "bin", "pip")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\n{line}\n")
    os.chmod(path, 0o755)


def _runs_without_error(python: str, code: str) -> bool:
    return _query([python, "-I", "-c", code]) is not None


def _requirements_for_pip(python: str, requirements: list[str], cwd: str) -> list[str]:
    """Replace a pyproject.toml by its dependencies, because pip cannot read them from it as uv does."""
    if len(requirements) != 2 or requirements[0] != "-r" or not requirements[1].endswith("pyproject.toml"):
        return requirements
    dependencies = _query([python, "-c", READ_DEPENDENCIES, os.path.join(cwd, requirements[1])])
    if dependencies is None:
        raise CannotStart(
            f"requirements: the dependencies in {requirements[1]} cannot be read. Check that it is valid TOML "
            "and has the section [project]."
        )
    return dependencies.split("\n") if dependencies else []


def _query(argv: list[str]) -> str | None:
    """Return the output of a command, or None if it failed."""
    output = query_output(argv, timeout_s=QUERY_TIMEOUT_S)
    return None if output is None else output.strip()


def _run_or_fail(run: Run, argv: list[str], env: dict[str, str]) -> None:
    result = run(argv, env)
    if result.exit_code != 0:
        output = f" Its output ends with:\n{result.tail}" if result.tail else ""
        tool = "uv" if os.path.basename(argv[0]) == "uv" else "pip" if "pip" in argv else "venv"
        raise CannotStart(
            f"requirements: {tool} could not install the requirements of the job (exit code "
            f"{result.exit_code}). Correct the requirements.{output}"
        )


def _cache_key(python: str, requirements: list[str], cwd: str) -> str:
    """Return a hash of the requirements, the content of the files they name, and the interpreter.

    The size and time of the interpreter's file are included, because they change when Python is upgraded in
    place.
    """
    real = os.path.realpath(python)
    status = os.stat(real) if os.path.exists(real) else None
    words = [real, str(status and (status.st_size, status.st_mtime_ns)), *sorted(requirements)]
    sha = new_sha256(0)
    sha.update("\0".join(words).encode())
    for path in _requirement_files(requirements, cwd):
        sha.update(b"\0" + _read_bytes(path))
    return str(sha.hexdigest()[:24])


def _requirement_files(words: list[str], cwd: str) -> Iterator[str]:
    """Yield the files that the requirements name, and the files that those files name."""
    waiting = [os.path.join(cwd, path) for path in _file_arguments(words)]
    seen: list[str] = []
    while waiting and len(seen) < MAX_FILES:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.append(path)
        yield path
        lines = _read_bytes(path).decode("utf-8", "replace").splitlines()
        words = [word for line in lines if line.startswith("-") for word in line.replace("=", " ", 1).split()]
        waiting += [os.path.join(os.path.dirname(path), name) for name in _file_arguments(words)]


def _file_arguments(words: list[str]) -> list[str]:
    flags = ("-r", "-c", "--requirement", "--constraint")
    return [after for word, after in zip(words, words[1:]) if word in flags]


def _read_bytes(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
