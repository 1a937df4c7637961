"""Python requirements: one cached virtual environment for each set of them, made once whoever asks first."""

from __future__ import annotations

import fcntl
import os
import time

from anygpu.agent.digest import new_sha256
from anygpu.agent.process import CannotStart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import IO

    Run = Callable[[Sequence[str], dict[str, str]], "int | None"]

READY = "anygpu-ready"
LOOK_EVERY_S = 0.2


def cache_directory() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "anygpu")


def environment_for(python: str, requirements: list[str], run: Run, go_on: Callable[[], None]) -> str:
    """The interpreter of an environment that has them.

    `run` runs a command and shows its output; `go_on` is asked while another job makes the same environment.
    """
    place = os.path.join(cache_directory(), "environments", _key(python, requirements))
    inner = os.path.join(place, "bin", "python")
    os.makedirs(place, exist_ok=True)
    with open(place + ".lock", "w", encoding="utf-8") as lock:
        _take(lock, go_on)
        if not os.path.exists(os.path.join(place, READY)):
            _make(python, place, inner, requirements, run)
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


def _make(python: str, place: str, inner: str, requirements: list[str], run: Run) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith(("ANYGPU_", "PYTHON"))}
    uv = _on_path("uv")
    if uv:
        _must(run, [uv, "venv", "--allow-existing", "--system-site-packages", "--python", python, place], env)
        _must(run, [uv, "pip", "install", "--python", inner, *requirements], env)
    else:
        _must(run, [python, "-m", "venv", "--system-site-packages", place], env)
        _must(run, [inner, "-m", "pip", "install", "--disable-pip-version-check", *requirements], env)


def _must(run: Run, argv: list[str], env: dict[str, str]) -> None:
    code = run(argv, env)
    if code != 0:
        raise CannotStart(
            f"the requirements could not be installed: `{' '.join(argv[:4])} ...` ended with {code}"
        )


def _on_path(name: str) -> str | None:
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        candidate = os.path.join(directory, name)
        if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    return None


def _key(python: str, requirements: list[str]) -> str:
    """The interpreter's real path stands for its version.

    An upgrade in place moves it or rebuilds its prefix.
    """
    sha = new_sha256(0)
    sha.update("\0".join([os.path.realpath(python), *sorted(requirements)]).encode())
    return str(sha.hexdigest()[:24])
