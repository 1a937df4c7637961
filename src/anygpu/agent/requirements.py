"""Python requirements: one cached virtual environment for each set of them, made once whoever asks first.

`["numpy"]` are requirements, `["-r", "requirements.txt"]` names a file of them, `["-r", "pyproject.toml"]` the project
whose dependencies they are. uv installs them where it is there, pip otherwise.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import time

from anygpu.agent.digest import new_sha256
from anygpu.agent.environment import on_path
from anygpu.agent.process import CannotStart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import IO

    from anygpu.agent.prepare import Ran

    Run = Callable[[Sequence[str], dict[str, str]], Ran]

READY = "anygpu-ready"
LOOK_EVERY_S = 0.2
ASK_FOR_S = 30.0
MOST_FILES = 100

PIP_FOR_OTHERS = "import venv, pip; assert tuple(map(int, pip.__version__.split('.')[:2])) >= (22, 3)"

# pip brings a reader of TOML for the interpreters that have none.
DEPENDENCIES = """
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


def environment_for(
    python: str, requirements: list[str], cwd: str, run: Run, go_on: Callable[[], None]
) -> str:
    """The interpreter of an environment that has them.

    `run` runs a command in `cwd` and shows its output; `go_on` is asked while another job makes the same environment.
    """
    place = os.path.join(cache_directory(), "environments", _key(python, requirements, cwd))
    inner = os.path.join(place, "bin", "python")
    os.makedirs(place, exist_ok=True)
    with open(place + ".lock", "w", encoding="utf-8") as lock:
        _take(lock, go_on)
        if not os.path.exists(os.path.join(place, READY)):
            _make(python, place, inner, requirements, cwd, run)
            with open(os.path.join(place, READY), "w", encoding="utf-8") as ready:
                ready.write("\n".join(requirements) + "\n")
    return inner


def _take(lock: IO[str], go_on: Callable[[], None]) -> None:
    while True:
        try:
            return fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            go_on()
            time.sleep(LOOK_EVERY_S)


def _make(python: str, place: str, inner: str, requirements: list[str], cwd: str, run: Run) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ANYGPU_", "PYTHON"))}
    uv = on_path("uv")
    if uv:
        _must(run, [uv, "venv", "--allow-existing", "--system-site-packages", "--python", python, place], env)
        _must(run, [uv, "pip", "install", "--python", inner, *requirements], env)
        _write_pip(place, f'exec "{uv}" pip "$@" --python "{inner}"')
        return
    wanted = _for_pip(python, requirements, cwd)
    pip = _with_pip(python, place, inner, run, env)
    if wanted:
        _must(run, [*pip, "install", "--disable-pip-version-check", *wanted], env)


def _with_pip(python: str, place: str, inner: str, run: Run, env: dict[str, str]) -> list[str]:
    """Make the environment; answers with how to call pip for it."""
    venv = [python, "-m", "venv", "--system-site-packages"]
    if _can(python, PIP_FOR_OTHERS):
        # Quicker by seconds than a pip of its own, and works where Debian has left ensurepip out.
        _must(run, [*venv, "--without-pip", place], env)
        _write_pip(place, f'exec "{python}" -m pip --python "{inner}" "$@"')
        return [python, "-m", "pip", "--python", inner]
    if not _can(python, "import venv, ensurepip"):
        raise CannotStart(
            f"requirements: {python} has neither venv nor a pip of today, and there is no uv; install uv, or "
            "python3-venv, on the machine or in its image"
        )
    _must(run, [*venv, place], env)
    return [inner, "-m", "pip"]


def _write_pip(place: str, line: str) -> None:
    """`pip` in a set-up command means this environment's."""
    path = os.path.join(place, "bin", "pip")
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"#!/bin/sh\n{line}\n")
    os.chmod(path, 0o755)


def _can(python: str, code: str) -> bool:
    return _asked([python, "-I", "-c", code]) is not None


def _for_pip(python: str, requirements: list[str], cwd: str) -> list[str]:
    """pip reads no pyproject.toml as a list of requirements, as uv does."""
    if len(requirements) != 2 or requirements[0] != "-r" or not requirements[1].endswith("pyproject.toml"):
        return requirements
    said = _asked([python, "-c", DEPENDENCIES, os.path.join(cwd, requirements[1])])
    if said is None:
        raise CannotStart(
            f"requirements: the dependencies in {requirements[1]} cannot be read; is it valid TOML?"
        )
    return said.split("\n") if said else []


def _asked(argv: list[str]) -> str | None:
    try:
        ran = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=ASK_FOR_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ran.stdout.decode("utf-8", "replace").strip() if ran.returncode == 0 else None


def _must(run: Run, argv: list[str], env: dict[str, str]) -> None:
    ran = run(argv, env)
    if ran.code != 0:
        said = f" It said:\n{ran.tail}" if ran.tail else ""
        tool = "uv" if os.path.basename(argv[0]) == "uv" else "pip" if "pip" in argv else "venv"
        raise CannotStart(f"requirements: {tool} could not install them (it ended with {ran.code}).{said}")


def _key(python: str, requirements: list[str], cwd: str) -> str:
    """What they say, not how their file is called; and the interpreter, whose real path stands for its version.

    An upgrade in place changes the interpreter's own file.
    """
    real = os.path.realpath(python)
    about = os.stat(real) if os.path.exists(real) else None
    words = [real, str(about and (about.st_size, about.st_mtime_ns)), *sorted(requirements)]
    sha = new_sha256(0)
    sha.update("\0".join(words).encode())
    for path in _files(requirements, cwd):
        sha.update(b"\0" + _content(path))
    return str(sha.hexdigest()[:24])


def _files(words: list[str], cwd: str) -> Iterator[str]:
    """The files they name, and the files these name."""
    waiting = [os.path.join(cwd, path) for path in _named(words)]
    seen: list[str] = []
    while waiting and len(seen) < MOST_FILES:
        path = waiting.pop(0)
        if path in seen:
            continue
        seen.append(path)
        yield path
        lines = _content(path).decode("utf-8", "replace").splitlines()
        words = [word for line in lines if line.startswith("-") for word in line.replace("=", " ", 1).split()]
        waiting += [os.path.join(os.path.dirname(path), found) for found in _named(words)]


def _named(words: list[str]) -> list[str]:
    flags = ("-r", "-c", "--requirement", "--constraint")
    return [after for word, after in zip(words, words[1:]) if word in flags]


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
