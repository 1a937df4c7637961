"""The environment of the user's process: what it needs, and nothing that happens to lie around."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from anygpu.agent.assignment import Assignment
    from anygpu.agent.home import Home

ALLOWED = frozenset(
    (
        "PATH",
        "HOME",
        "USER",
        "LOGNAME",
        "LANG",
        "TZ",
        "TMPDIR",
        "SHELL",
        "LD_LIBRARY_PATH",
        "DYLD_LIBRARY_PATH",
    )
)
ALLOWED_FAMILIES = ("LC_", "CUDA_", "NVIDIA_", "XDG_")
STATE = ".anygpu"


def interpreter(assignment: Assignment, is_away: bool) -> tuple[str, str]:
    """(the job's Python, a line for its log). On another machine the submitter's own interpreter is not there."""
    wanted = assignment.work.python
    if not wanted:
        return sys.executable, ""
    if wanted.replace(".", "").isdigit():
        return _of_version(wanted)
    if is_away and os.path.isabs(wanted) and not os.path.exists(wanted):
        return sys.executable, f"this machine has no {wanted}; the job runs with {sys.executable}"
    return wanted, ""


def _of_version(version: str) -> tuple[str, str]:
    if f"{own_version()}.".startswith(f"{version}."):
        return sys.executable, ""
    found = on_path(f"python{version}")
    if found:
        return found, ""
    return sys.executable, f"this machine has no python{version}; the job runs with Python {own_version()}"


def own_version() -> str:
    return sys.version.split()[0]


def directories(cwd: str) -> tuple[str, str]:
    """(for outputs, for checkpoints).

    Inside the working directory, where relative paths mean the same anywhere.
    """
    return os.path.join(cwd, STATE, "outputs"), os.path.join(cwd, STATE, "checkpoints")


def scrubbed(surroundings: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in surroundings.items()
        if name in ALLOWED or name.startswith(ALLOWED_FAMILIES)
    }


def for_the_job(home: Home, assignment: Assignment, cwd: str, python: str) -> dict[str, str]:
    """Later lines win: the spec's values over ours for taste, our own names over everything."""
    outputs, checkpoints = directories(cwd)
    env = scrubbed(os.environ)
    env.setdefault("PATH", os.defpath)
    env["PYTHONUNBUFFERED"] = "1"
    _use_interpreter(env, python)
    env.update(assignment.work.env)
    env.update(assignment.work.secrets)
    env["PYTHONPATH"] = _joined(home.library, env.get("PYTHONPATH"))
    env["ANYGPU_JOB_ID"] = assignment.job_id
    env["ANYGPU_ATTEMPT"] = str(assignment.attempt)
    env["ANYGPU_NAME"] = assignment.name
    env["ANYGPU_DIR"] = home.channel
    env["ANYGPU_OUTPUT_DIR"] = outputs
    env["ANYGPU_CHECKPOINT_DIR"] = checkpoints
    return env


def on_path(name: str) -> str | None:
    """Where a program is, for commands of ours. (shutil.which costs more than asking.)"""
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        candidate = os.path.join(directory, name)
        if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    return None


def _use_interpreter(env: dict[str, str], python: str) -> None:
    """`python`, `pip` and `torchrun` in a shell line mean those beside the job's interpreter."""
    folder = os.path.dirname(python)
    if not folder:
        return
    env["PATH"] = _joined(folder, env["PATH"])
    if os.path.exists(os.path.join(os.path.dirname(folder), "pyvenv.cfg")):
        env["VIRTUAL_ENV"] = os.path.dirname(folder)


def _joined(first: str, rest: str | None) -> str:
    return f"{first}{os.pathsep}{rest}" if rest else first


def install_library(home: Home, in_container: bool = False) -> None:
    """The `anygpu` a script imports: two files, and the trainers.

    In a directory of their own, so that nothing else of ours gets onto its path.
    """
    target = os.path.join(home.library, "anygpu")
    os.makedirs(target, exist_ok=True)
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for name in ("__init__.py", "job.py"):
        with open(os.path.join(target, name), "wb") as file:
            file.write(_source(os.path.join(package, name)))
    _lend(os.path.join(package, "trainers"), os.path.join(target, "trainers"), in_container)


def _lend(source: str, target: str, in_container: bool) -> None:
    """A link costs nothing; a container sees the attempt's directory only, and in an archive nothing can be linked."""
    if os.path.lexists(target):
        return
    if not os.path.isdir(source):
        _extract(source, os.path.dirname(os.path.dirname(target)))
    elif not in_container:
        os.symlink(source, target)
    else:
        import shutil

        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))


def _extract(source: str, target: str) -> None:
    archive = getattr(globals().get("__loader__"), "archive", None)
    if archive is None:
        return
    import zipfile

    with zipfile.ZipFile(archive) as members:
        inside = [name for name in members.namelist() if name.startswith("anygpu/trainers/")]
        members.extractall(target, inside)


def _source(path: str) -> bytes:
    loader = globals().get("__loader__")
    if loader is not None and hasattr(loader, "get_data"):
        found: bytes = loader.get_data(path)
        return found
    with open(path, "rb") as file:
        return file.read()
