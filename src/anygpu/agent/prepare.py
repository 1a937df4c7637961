"""Before the job: its directory, its Python, its data, its set-up. Ends in exactly what is to be started."""

from __future__ import annotations

import os
import sys

from anygpu.agent import bring, environment
from anygpu.agent.bring import Interrupted, go_on
from anygpu.agent.environment import on_path
from anygpu.agent.process import CannotStart, Process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from anygpu.agent.attempt import Attempt


TRAINERS = "anygpu.trainers"
OLDEST_FOR_TRAINERS = (3, 10)
TAIL_BYTES = 4000
TAIL_LINES = 5


class Prepared:
    """What is to be started, where, and with what around it."""

    __slots__ = ("argv", "cwd", "ends_with", "env")

    def __init__(self, argv: list[str], cwd: str, env: dict[str, str], ends_with: Sequence[str] = ()) -> None:
        self.argv = argv
        self.cwd = cwd
        self.env = env
        self.ends_with = list(ends_with)


def prepare(attempt: Attempt) -> Prepared:
    """Each step by its name, which is also how it is told when it fails."""
    step = _Step()
    try:
        return _prepared(attempt, step)
    except OSError as error:
        raise CannotStart(f"{step.name}: {bring.why(error, attempt.home.path)}") from error


class _Step:
    """Which one it is."""

    def __init__(self) -> None:
        self.name = "preparing"

    def __call__(self, name: str) -> None:
        self.name = name


def _prepared(attempt: Attempt, step: _Step) -> Prepared:
    work, home = attempt.work, attempt.home
    if work.archive or work.requirements or work.setup or work.dataset or work.resume:
        attempt.report.phase("preparing")
    step("fetching the working directory")
    bring.working_directory(attempt)
    cwd = _working_directory(attempt)
    environment.install_library(home, in_container=bool(work.image))
    step("requirements")
    python = "python" if work.image else _interpreter(attempt, cwd)
    env = environment.for_the_job(home, attempt.assignment, cwd, python)
    if not work.image:
        _check_fit(attempt, python, env)
    step("fetching the dataset")
    data = bring.dataset(attempt, cwd)
    if data is not None:
        env["ANYGPU_DATASET"] = data
    step("fetching the checkpoint")
    resume_args = _restore(attempt, cwd, env)
    if work.image:
        step("image")
        return _in_container(attempt, work.image, cwd, env, resume_args)
    step("setup")
    _set_up(attempt, cwd, env)
    return Prepared(_command(attempt, cwd, python) + resume_args, cwd, env)


def _in_container(
    attempt: Attempt, image: str, cwd: str, env: dict[str, str], resume_args: list[str]
) -> Prepared:
    """The set-up runs inside, before the job."""
    from anygpu.agent import containers

    runtime = containers.find_runtime(image)
    if not containers.has_image(runtime, image):
        ran = run_command(attempt, containers.pull_command(runtime, image), cwd, env)
        if ran.code != 0:
            raise CannotStart(f"image: {image} could not be pulled (code {ran.code}); it said:\n{ran.tail}")
    name = attempt.assignment.name
    argv = containers.run_command(
        runtime,
        image,
        _command(attempt, cwd, "python") + resume_args,
        name=name,
        cwd=cwd,
        home=attempt.home.path,
        env=env,
        setup=attempt.work.setup,
        data=env.get("ANYGPU_DATASET"),
        has_gpus=on_path("nvidia-smi") is not None,
    )
    return Prepared(argv, cwd, env, containers.kill_command(runtime, name))


def _working_directory(attempt: Attempt) -> str:
    cwd = os.path.normpath(os.path.join(attempt.home.work, attempt.work.subdir))
    if os.path.commonpath([cwd, attempt.home.work]) != attempt.home.work:
        raise CannotStart(f"subdir {attempt.work.subdir!r} leads out of the working directory")
    for directory in (cwd, attempt.home.channel, *environment.directories(cwd)):
        os.makedirs(directory, exist_ok=True)
    return cwd


def _interpreter(attempt: Attempt, cwd: str) -> str:
    python, note = environment.interpreter(attempt.assignment, attempt.is_away)
    if note:
        attempt.report.line(note)
    if TRAINERS in (attempt.work.argv or ()):
        _require_new_enough(python)
    if not attempt.work.requirements:
        return python

    from anygpu.agent.requirements import environment_for

    def run(argv: Sequence[str], env: dict[str, str]) -> Ran:
        return run_command(attempt, argv, cwd, env)

    return environment_for(python, attempt.work.requirements, cwd, run, lambda: go_on(attempt))


def _require_new_enough(python: str) -> None:
    """Known without asking where the job runs with our own interpreter; any other says it by itself."""
    version = environment.own_version()
    if python == sys.executable and tuple(map(int, version.split(".")[:2])) < OLDEST_FOR_TRAINERS:
        raise CannotStart(
            f"trainers need Python 3.10 or newer, and this machine's is {version}: install one and name it with "
            "`python`, or give an `image`"
        )


def _check_fit(attempt: Attempt, python: str, env: dict[str, str]) -> None:
    """On machines that are not ours, and for environments we made: elsewhere nobody waits for it."""
    ours = not attempt.is_away and not attempt.work.requirements
    if ours or env.get("CUDA_VISIBLE_DEVICES") == "" or not on_path("nvidia-smi"):
        return

    from anygpu.agent import fit

    wrong, doubtful = fit.misfit(python, fit.asking(env))
    if wrong:
        raise CannotStart(f"torch does not fit: {wrong}")
    if doubtful:
        attempt.report.line(doubtful)


def _restore(attempt: Attempt, cwd: str, env: dict[str, str]) -> list[str]:
    if not attempt.work.resume:
        return []

    from anygpu.agent.restore import restore

    restored = restore(attempt, cwd)
    if restored is None:
        return []
    env["ANYGPU_RESUME_PATH"] = restored.path
    return restored.arguments(attempt.work.checkpoint.resume_args)


def _set_up(attempt: Attempt, cwd: str, env: dict[str, str]) -> None:
    for number, line in enumerate(attempt.work.setup, 1):
        attempt.report.line(f"setup {number}/{len(attempt.work.setup)}: {attempt.mask.text(line)}")
        ran = run_command(attempt, shell_command(line), cwd, env)
        if ran.code != 0:
            said = f"; it said:\n{ran.tail}" if ran.tail else ""
            raise CannotStart(
                f"setup command {number} ended with code {ran.code}: {attempt.mask.text(line)}{said}"
            )


def _command(attempt: Attempt, cwd: str, python: str) -> list[str]:
    work = attempt.work
    if work.shell is not None:
        return ["/bin/sh", "-c", work.shell] if work.image else shell_command(work.shell)
    if work.code is not None:
        return [python, _written(os.path.join(cwd, environment.STATE, "code.py"), work.code)]
    if not work.argv:
        raise CannotStart("the job says neither argv, shell nor code: there is nothing to start")
    return [python if work.argv[0] in ("python", "python3") else work.argv[0], *work.argv[1:]]


def _written(path: str, text: str) -> str:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def shell_command(line: str) -> list[str]:
    shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    return [shell, "-c", line]


class Ran:
    """How a command of the preparation ended, and its last lines."""

    __slots__ = ("code", "tail")

    def __init__(self, code: int | None, tail: str) -> None:
        self.code, self.tail = code, tail


def run_command(attempt: Attempt, argv: Sequence[str], cwd: str, env: dict[str, str]) -> Ran:
    """A command of the preparation.

    Its output is in the log, and orders, lease and timeout hold for it too.
    """
    process = Process(argv, cwd, env, attempt.assignment.name)
    said = bytearray()

    def take(data: bytes) -> None:
        attempt.report.output(data)
        said.extend(data)
        del said[:-TAIL_BYTES]

    ending = attempt.loop.run(process, lambda data: take(attempt.mask.feed(data)), saves=False)
    take(attempt.mask.close())
    if ending.stop is not None:
        raise Interrupted
    return Ran(ending.code, _last_lines(bytes(said)))


def _last_lines(said: bytes) -> str:
    lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines()]
    return "\n".join([line for line in lines if line][-TAIL_LINES:])
