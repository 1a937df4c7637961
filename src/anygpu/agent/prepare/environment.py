"""The environment of the job: its interpreter, its variables, and the `anygpu` module that it imports."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from anygpu.agent.assignment import Assignment
    from anygpu.agent.attempt_dir import AttemptDir, JobDirectories

ALLOWED_VARIABLES = frozenset(
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
LIBRARY_FILES = ("__init__.py", "bounds.py", "job.py", "suggest.py")
TORCHRUN_FILE = "torchrun_main.py"
ALLOWED_PREFIXES = ("LC_", "CUDA_", "NVIDIA_", "XDG_")


def choose_interpreter(requested: str | None, is_remote: bool) -> tuple[str, str]:
    """Return the path of the job's Python, and a note for the job's log ("" if there is nothing to note).

    `requested` is a path, a name or a version. A path from the submitter's machine may not exist on this
    machine.
    """
    if not requested:
        return sys.executable, ""
    if requested.replace(".", "").isdigit():
        return _interpreter_for_version(requested)
    if is_remote and os.path.isabs(requested) and not os.path.exists(requested):
        return (
            sys.executable,
            f"The Python of this job, {requested}, does not exist on this machine; the job runs with "
            f"{sys.executable} instead.",
        )
    return requested, ""


def _interpreter_for_version(version: str) -> tuple[str, str]:
    if f"{agent_python_version()}.".startswith(f"{version}."):
        return sys.executable, ""
    path = find_program(f"python{version}")
    if path:
        return path, ""
    return (
        sys.executable,
        f"This machine has no Python {version}; the job runs with Python {agent_python_version()} instead.",
    )


def agent_python_version() -> str:
    return sys.version.split()[0]


def filter_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a job may see, without the secrets in the agent's environment."""
    return {
        name: value
        for name, value in variables.items()
        if name in ALLOWED_VARIABLES or name.startswith(ALLOWED_PREFIXES)
    }


def job_environment(
    attempt_dir: AttemptDir, assignment: Assignment, directories: JobDirectories, python: str
) -> dict[str, str]:
    """Return the job's environment variables. The spec overrides the defaults; ANYGPU_ variables override both."""
    env = filter_environment(os.environ)
    env.setdefault("PATH", os.defpath)
    env["PYTHONUNBUFFERED"] = "1"
    _use_interpreter(env, python)
    env.update(assignment.job.env)
    env.update(assignment.job.secrets)
    env["PYTHONPATH"] = _prepend_path(attempt_dir.library_dir, env.get("PYTHONPATH"))
    env["ANYGPU_JOB_ID"] = assignment.job_id
    env["ANYGPU_ATTEMPT"] = str(assignment.attempt)
    env["ANYGPU_NAME"] = assignment.name
    env["ANYGPU_DIR"] = attempt_dir.channel_dir
    env["ANYGPU_OUTPUT_DIR"] = directories.outputs
    env["ANYGPU_CHECKPOINT_DIR"] = directories.checkpoints
    return env


def find_program(name: str) -> str | None:
    """Return the path of a program on PATH, or None. Used instead of `shutil.which`, whose import takes longer."""
    for directory in os.environ.get("PATH", os.defpath).split(os.pathsep):
        candidate = os.path.join(directory, name)
        if os.access(candidate, os.X_OK) and os.path.isfile(candidate):
            return candidate
    return None


def _use_interpreter(env: dict[str, str], python: str) -> None:
    """Put the interpreter's directory first on PATH in `env`, so that `python`, `pip` and `torchrun` are from it."""
    folder = os.path.dirname(python)
    if not folder:
        return
    env["PATH"] = _prepend_path(folder, env["PATH"])
    if os.path.exists(os.path.join(os.path.dirname(folder), "pyvenv.cfg")):
        env["VIRTUAL_ENV"] = os.path.dirname(folder)


def _prepend_path(first: str, rest: str | None) -> str:
    return f"{first}{os.pathsep}{rest}" if rest else first


def install_library(attempt_dir: AttemptDir, in_container: bool = False) -> None:
    """Install the `anygpu` package that the script imports: LIBRARY_FILES and the trainers.

    The package has a directory of its own, so that the script cannot import other modules of the agent by
    accident.
    """
    target = os.path.join(attempt_dir.library_dir, "anygpu")
    os.makedirs(target, exist_ok=True)
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    for name in LIBRARY_FILES:
        with open(os.path.join(target, name), "wb") as file:
            file.write(_read_source(os.path.join(package, name)))
    _install_trainers(os.path.join(package, "trainers"), os.path.join(target, "trainers"), in_container)


def install_torchrun(attempt_dir: AttemptDir) -> str:
    """Copy the program that starts torchrun to the attempt's directory, and return its path."""
    package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    path = os.path.join(attempt_dir.library_dir, TORCHRUN_FILE)
    with open(path, "wb") as file:
        file.write(_read_source(os.path.join(package, "agent", "run", TORCHRUN_FILE)))
    return path


def _install_trainers(source: str, target: str, in_container: bool) -> None:
    """Link the trainers into the package that the script imports.

    They are copied for a container, and when the agent is a .pyz file, because links do not work there.
    """
    if os.path.lexists(target):
        return
    if not os.path.isdir(source):
        _extract_trainers(source, os.path.dirname(os.path.dirname(target)))
    elif not in_container:
        os.symlink(source, target)
    else:
        import shutil

        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))


def _extract_trainers(source: str, target: str) -> None:
    archive = getattr(globals().get("__loader__"), "archive", None)
    if archive is None:
        return
    import zipfile

    with zipfile.ZipFile(archive) as members:
        inside = [name for name in members.namelist() if name.startswith("anygpu/trainers/")]
        members.extractall(target, inside)


def _read_source(path: str) -> bytes:
    loader = globals().get("__loader__")
    if loader is not None and hasattr(loader, "get_data"):
        data: bytes = loader.get_data(path)
        return data
    with open(path, "rb") as file:
        return file.read()
