"""Before the job: its directory, its Python, its data, its set-up. Ends in exactly what is to be started."""

from __future__ import annotations

import os
import sys

from anygpu.agent import attempt_dir
from anygpu.agent.prepare import environment, inputs
from anygpu.agent.prepare.environment import find_program
from anygpu.agent.prepare.inputs import Interrupted, check_interrupted
from anygpu.agent.run.process import CannotStart, JobProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from anygpu.agent.attempt import AttemptRunner


TRAINERS = "anygpu.trainers"
OLDEST_FOR_TRAINERS = (3, 10)
TAIL_BYTES = 4000
TAIL_LINES = 5


class LaunchPlan:
    """What is to be started, where, and with what around it."""

    __slots__ = ("argv", "cwd", "env", "kill_command")

    def __init__(
        self, argv: list[str], cwd: str, env: dict[str, str], kill_command: Sequence[str] = ()
    ) -> None:
        self.argv = argv
        self.cwd = cwd
        self.env = env
        self.kill_command = list(kill_command)


def prepare(attempt: AttemptRunner) -> LaunchPlan:
    """Each step by its name, which is also how it is told when it fails."""
    step = _Step()
    try:
        return _run_steps(attempt, step)
    except OSError as error:
        raise CannotStart(f"{step.name}: {inputs.describe_error(error, attempt.attempt_dir.path)}") from error


class _Step:
    """Which one it is."""

    def __init__(self) -> None:
        self.name = "preparing"

    def __call__(self, name: str) -> None:
        self.name = name


def _run_steps(attempt: AttemptRunner, step: _Step) -> LaunchPlan:
    work, home = attempt.job, attempt.attempt_dir
    if work.archive or work.requirements or work.setup or work.dataset or work.resume:
        attempt.reporter.start_phase("preparing")
    step("fetching the working directory")
    inputs.fetch_working_directory(attempt)
    cwd = _working_directory(attempt)
    environment.install_library(home, in_container=bool(work.image))
    step("requirements")
    python = "python" if work.image else _interpreter(attempt, cwd)
    env = environment.job_environment(home, attempt.assignment, cwd, python)
    if not work.image:
        _check_torch(attempt, python, env)
    step("fetching the dataset")
    data = inputs.fetch_dataset(attempt, cwd)
    if data is not None:
        env["ANYGPU_DATASET"] = data
    step("fetching the checkpoint")
    resume_args = _restore(attempt, cwd, env)
    if work.image:
        step("image")
        return _in_container(attempt, work.image, cwd, env, resume_args)
    step("setup")
    _set_up(attempt, cwd, env)
    return LaunchPlan(_command(attempt, cwd, python) + resume_args, cwd, env)


def _in_container(
    attempt: AttemptRunner, image: str, cwd: str, env: dict[str, str], resume_args: list[str]
) -> LaunchPlan:
    """The set-up runs inside, before the job."""
    from anygpu.agent.prepare import containers

    runtime = containers.find_runtime(image)
    if not containers.has_image(runtime, image):
        ran = run_command(attempt, containers.pull_command(runtime, image), cwd, env)
        if ran.exit_code != 0:
            raise CannotStart(
                f"image: {image} could not be pulled (code {ran.exit_code}); it said:\n{ran.tail}"
            )
    name = attempt.assignment.name
    argv = containers.run_command(
        runtime,
        image,
        _command(attempt, cwd, "python") + resume_args,
        name=name,
        cwd=cwd,
        home=attempt.attempt_dir.path,
        env=env,
        setup=attempt.job.setup,
        data=env.get("ANYGPU_DATASET"),
        has_gpus=find_program("nvidia-smi") is not None,
    )
    return LaunchPlan(argv, cwd, env, containers.remove_command(runtime, name))


def _working_directory(attempt: AttemptRunner) -> str:
    cwd = os.path.normpath(os.path.join(attempt.attempt_dir.work_dir, attempt.job.subdir))
    if os.path.commonpath([cwd, attempt.attempt_dir.work_dir]) != attempt.attempt_dir.work_dir:
        raise CannotStart(f"subdir {attempt.job.subdir!r} leads out of the working directory")
    for directory in (cwd, attempt.attempt_dir.channel_dir, *attempt_dir.job_directories(cwd)):
        os.makedirs(directory, exist_ok=True)
    return cwd


def _interpreter(attempt: AttemptRunner, cwd: str) -> str:
    python, note = environment.choose_interpreter(attempt.assignment, attempt.is_remote)
    if note:
        attempt.reporter.write_line(note)
    if TRAINERS in (attempt.job.argv or ()):
        _require_new_enough(python)
    if not attempt.job.requirements:
        return python

    from anygpu.agent.prepare.venv import ensure_venv

    def run(argv: Sequence[str], env: dict[str, str]) -> CommandResult:
        return run_command(attempt, argv, cwd, env)

    return ensure_venv(python, attempt.job.requirements, cwd, run, lambda: check_interrupted(attempt))


def _require_new_enough(python: str) -> None:
    """Known without asking where the job runs with our own interpreter; any other says it by itself."""
    version = environment.agent_python_version()
    if python == sys.executable and tuple(map(int, version.split(".")[:2])) < OLDEST_FOR_TRAINERS:
        raise CannotStart(
            f"trainers need Python 3.10 or newer, and this machine's is {version}: install one and name it with "
            "`python`, or give an `image`"
        )


def _check_torch(attempt: AttemptRunner, python: str, env: dict[str, str]) -> None:
    """On machines that are not ours, and for environments we made: elsewhere nobody waits for it."""
    ours = not attempt.is_remote and not attempt.job.requirements
    if ours or env.get("CUDA_VISIBLE_DEVICES") == "" or not find_program("nvidia-smi"):
        return

    from anygpu.agent.prepare import torch_check

    wrong, doubtful = torch_check.check_torch(python, torch_check.command_output(env))
    if wrong:
        raise CannotStart(f"torch does not fit: {wrong}")
    if doubtful:
        attempt.reporter.write_line(doubtful)


def _restore(attempt: AttemptRunner, cwd: str, env: dict[str, str]) -> list[str]:
    if not attempt.job.resume:
        return []

    from anygpu.agent.prepare.restore import restore_checkpoint

    restored = restore_checkpoint(attempt, cwd)
    if restored is None:
        return []
    env["ANYGPU_RESUME_PATH"] = restored.path
    return restored.arguments(attempt.job.checkpoint.resume_args)


def _set_up(attempt: AttemptRunner, cwd: str, env: dict[str, str]) -> None:
    for number, line in enumerate(attempt.job.setup, 1):
        attempt.reporter.write_line(
            f"setup {number}/{len(attempt.job.setup)}: {attempt.mask.mask_text(line)}"
        )
        ran = run_command(attempt, shell_command(line), cwd, env)
        if ran.exit_code != 0:
            said = f"; it said:\n{ran.tail}" if ran.tail else ""
            raise CannotStart(
                f"setup command {number} ended with code {ran.exit_code}: {attempt.mask.mask_text(line)}{said}"
            )


def _command(attempt: AttemptRunner, cwd: str, python: str) -> list[str]:
    work = attempt.job
    if work.shell is not None:
        return ["/bin/sh", "-c", work.shell] if work.image else shell_command(work.shell)
    if work.code is not None:
        return [python, _write_text(os.path.join(cwd, attempt_dir.STATE_DIR, "code.py"), work.code)]
    if not work.argv:
        raise CannotStart("the job says neither argv, shell nor code: there is nothing to start")
    return [python if work.argv[0] in ("python", "python3") else work.argv[0], *work.argv[1:]]


def _write_text(path: str, text: str) -> str:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def shell_command(line: str) -> list[str]:
    shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    return [shell, "-c", line]


class CommandResult:
    """How a command of the preparation ended, and its last lines."""

    __slots__ = ("exit_code", "tail")

    def __init__(self, code: int | None, tail: str) -> None:
        self.exit_code, self.tail = code, tail


def run_command(attempt: AttemptRunner, argv: Sequence[str], cwd: str, env: dict[str, str]) -> CommandResult:
    """A command of the preparation.

    Its output is in the log, and orders, lease and timeout hold for it too.
    """
    process = JobProcess(argv, cwd, env, attempt.assignment.name)
    said = bytearray()

    def take(data: bytes) -> None:
        attempt.reporter.write_output(data)
        said.extend(data)
        del said[:-TAIL_BYTES]

    ending = attempt.loop.run(process, lambda data: take(attempt.mask.feed(data)), saves=False)
    take(attempt.mask.close())
    if ending.stop is not None:
        raise Interrupted
    return CommandResult(ending.return_code, _tail(bytes(said)))


def _tail(said: bytes) -> str:
    lines = [line.strip() for line in said.decode("utf-8", "replace").splitlines()]
    return "\n".join([line for line in lines if line][-TAIL_LINES:])
