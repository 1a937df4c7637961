"""Prepare a job: its files, Python, dataset, checkpoint and set-up commands. The result is the command to start."""

from __future__ import annotations

import errno
import os
import sys

from anygpu.agent.attempt_dir import JobDirectories
from anygpu.agent.prepare import environment, inputs
from anygpu.agent.prepare.commands import CommandRunner
from anygpu.agent.prepare.environment import find_program
from anygpu.agent.prepare.installers import installer_variables
from anygpu.agent.run import ranks
from anygpu.agent.run.process import CannotStart

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from anygpu.agent.assignment import Assignment
    from anygpu.agent.attempt_dir import AttemptDir
    from anygpu.agent.link.reporter import Reporter
    from anygpu.agent.prepare.commands import CommandResult
    from anygpu.agent.prepare.download import InputDownloader
    from anygpu.agent.run.loop import ProcessLoop
    from anygpu.agent.run.output import SecretMask
    from anygpu.agent.run.ranks import MasterAddress

TRAINERS_MODULE = "anygpu.trainers"
MIN_PYTHON_FOR_TRAINERS = (3, 10)
DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class LaunchPlan:
    """The command that starts the job, with its directories and environment."""

    __slots__ = ("argv", "directories", "env", "kill_command", "restored_step")

    def __init__(
        self,
        argv: list[str],
        directories: JobDirectories,
        env: dict[str, str],
        kill_command: Sequence[str] = (),
    ) -> None:
        self.argv = argv
        self.directories = directories
        self.env = env
        self.kill_command = list(kill_command)
        self.restored_step: int | None = None  # of the restored checkpoint; None for a fresh start


class Preparation:
    """Runs the steps that prepare a job, and returns the command that starts it.

    If the operating system reports an error, the message begins with the name of the step that failed.
    """

    def __init__(
        self,
        assignment: Assignment,
        attempt_dir: AttemptDir,
        reporter: Reporter,
        mask: SecretMask,
        loop: ProcessLoop,
        downloader: InputDownloader,
        is_remote: bool,
        meet_nodes: Callable[[bool | None], MasterAddress],
    ) -> None:
        """Create the preparation.

        `is_remote`: this machine is not the server's, so the submitter's files and interpreter may not exist
        on it. `meet_nodes` waits until all nodes of the attempt are prepared. Its argument says whether the
        checkpoint was restored here; None if there is none.
        """
        self._assignment = assignment
        self._job = assignment.job
        self._attempt_dir = attempt_dir
        self._reporter = reporter
        self._mask = mask
        self._loop = loop
        self._commands = CommandRunner(assignment.name, loop, reporter, mask)
        self._downloader = downloader
        self._is_remote = is_remote
        self._meet_nodes = meet_nodes
        self._step = "preparing"
        self._restored_step: int | None = None

    def run(self) -> LaunchPlan:
        try:
            plan = self._run_steps()
            plan.restored_step = self._restored_step
            return plan
        except OSError as error:
            raise CannotStart(f"{self._step}: {describe_error(error, self._attempt_dir.path)}") from error

    def _run_steps(self) -> LaunchPlan:
        job = self._job
        if job.archive or job.requirements or job.setup or job.dataset or job.resume:
            self._reporter.start_phase("preparing")
        self._step = "fetching the working directory"
        if job.directory is None:
            inputs.fetch_working_directory(job.archive, self._attempt_dir, self._downloader)
        directories = self._create_directories()
        cwd = directories.cwd
        environment.install_library(self._attempt_dir, in_container=bool(job.image))
        self._step = "requirements"
        python = "python" if job.image else self._choose_interpreter(cwd)
        env = environment.job_environment(self._attempt_dir, self._assignment, directories, python)
        if not job.image:
            self._check_torch(python, env)
        self._step = "fetching the dataset"
        dataset = inputs.fetch_dataset(job.dataset, self._attempt_dir, cwd, self._downloader, self._is_remote)
        if dataset is not None:
            env["ANYGPU_DATASET"] = dataset
        self._step = "fetching the checkpoint"
        resume_args = self._restore_checkpoint(directories, env)
        if job.image:
            self._step = "image"
            return self._container_plan(job.image, directories, env, resume_args)
        self._step = "setup"
        self._run_setup(cwd, env)
        command = self._launched(self._command(directories, python) + resume_args, python, env)
        return LaunchPlan(command, directories, env)

    def _create_directories(self) -> JobDirectories:
        """Create the directories of the job. The user's directory of a job that runs in place must exist."""
        directory, work_dir = self._job.directory, self._attempt_dir.work_dir
        root = directory or work_dir
        cwd = os.path.normpath(os.path.join(root, self._job.subdir)) if self._job.subdir else root
        if os.path.commonpath([cwd, root]) != os.path.normpath(root):
            raise CannotStart(
                f"workdir.subdir: {self._job.subdir!r} is outside of the working directory. Give a relative path "
                "without `..`."
            )
        if directory is not None and not os.path.isdir(cwd):
            raise CannotStart(
                f"the working directory {cwd} does not exist on this machine. Submit the job from a directory "
                "that exists here, or upload a copy of its files with `anygpu run --snapshot`."
            )
        directories = JobDirectories(cwd, None if directory is None else work_dir)
        directories.create()
        os.makedirs(self._attempt_dir.channel_dir, exist_ok=True)
        return directories

    def _choose_interpreter(self, cwd: str) -> str:
        """Return the path of the job's Python. With requirements, this is the Python of a virtual environment."""
        python, note = environment.choose_interpreter(self._job.python, self._is_remote)
        if note:
            self._reporter.write_line(note)
        if TRAINERS_MODULE in (self._job.argv or ()):
            _check_python_for_trainers(python)
        if not self._job.requirements:
            return python

        from anygpu.agent.prepare.venv import ensure_venv

        def run(argv: Sequence[str], env: dict[str, str]) -> CommandResult:
            return self._commands.run(argv, cwd, env)

        return ensure_venv(python, self._job.requirements, cwd, run, self._loop.check_interrupted)

    def _check_torch(self, python: str, env: dict[str, str]) -> None:
        """Raise `CannotStart` if torch, the driver and the GPU do not work together.

        The check takes time. It is skipped if the job runs on the server's machine in the user's own
        environment.
        """
        is_own_environment = not self._is_remote and not self._job.requirements
        if is_own_environment or env.get("CUDA_VISIBLE_DEVICES") == "" or not find_program("nvidia-smi"):
            return

        from anygpu.agent.prepare import torch_check

        problem, warning = torch_check.check_torch(python, torch_check.command_output(env))
        if problem:
            raise CannotStart(f"torch cannot use the GPU of this machine: {problem}")
        if warning:
            self._reporter.write_line(warning)

    def _restore_checkpoint(self, directories: JobDirectories, env: dict[str, str]) -> list[str]:
        """Restore the checkpoint to resume from, and return the arguments to add to the job's command."""
        if not self._job.resume:
            return []

        from anygpu.agent.prepare.restore import PutBack, restore_checkpoint

        restored = restore_checkpoint(
            self._job.resume,
            self._job.checkpoint.paths,
            os.path.join(self._attempt_dir.channel_dir, "resume"),
            PutBack(directories, self._assignment.job_id, self._reporter),
            self._downloader,
            self._reporter,
        )
        if restored is None:
            if self._job.ranks.nodes > 1:
                self._reporter.write_line(
                    "If another node has restored this checkpoint, no node starts, and the job is tried again."
                )
            return []
        self._restored_step = restored.step
        env["ANYGPU_RESUME_PATH"] = restored.path
        return restored.arguments(self._job.checkpoint.resume_args)

    def _run_setup(self, cwd: str, env: dict[str, str]) -> None:
        for number, line in enumerate(self._job.setup, 1):
            shown = self._mask.mask_text(line)
            self._reporter.write_line(f"setup {number}/{len(self._job.setup)}: {shown}")
            result = self._commands.run(shell_command(line), cwd, _with_installer_variables(env))
            if result.exit_code != 0:
                output = f"; its output ends with:\n{result.tail}" if result.tail else ""
                raise CannotStart(
                    f"setup: command {number} failed with exit code {result.exit_code}: {shown}{output}"
                )

    def _container_plan(
        self, image: str, directories: JobDirectories, env: dict[str, str], resume_args: list[str]
    ) -> LaunchPlan:
        """Return the launch plan for a job in a container. The set-up commands run in the container too."""
        from anygpu.agent.prepare import containers

        runtime = containers.find_runtime(image)
        if not containers.has_image(runtime, image):
            pull = containers.pull_command(runtime, image)
            result = self._commands.run(pull, directories.cwd, _with_installer_variables(env))
            if result.exit_code != 0:
                raise CannotStart(
                    f"image: the container image {image} could not be pulled (exit code {result.exit_code}). Check "
                    f"its name, and that this machine may read from its registry. The output ends with:\n{result.tail}"
                )
        name = self._assignment.name
        command = self._launched(self._command(directories, "python") + resume_args, "python", env)
        argv = containers.run_command(
            runtime,
            image,
            command,
            name=name,
            cwd=directories.cwd,
            attempt_dir=self._attempt_dir.path,
            env=env,
            setup=self._job.setup,
            dataset=env.get("ANYGPU_DATASET"),
            has_gpus=find_program("nvidia-smi") is not None,
        )
        return LaunchPlan(argv, directories, env, containers.remove_command(runtime, name))

    def _launched(self, command: list[str], python: str, env: dict[str, str]) -> list[str]:
        """Return the command that starts all processes of this node, once all nodes of the attempt are prepared.

        Adds the variables with which the processes find each other to `env`.
        """
        if not self._job.has_ranks:
            return command
        self._step = "waiting for the other nodes"
        master = self._meet_nodes(self._restored_step is not None if self._job.resume else None)
        env.update(ranks.rank_variables(self._job.ranks, master))
        if self._job.ranks.launcher == "none":
            return command
        for name, value in ranks.torchrun_variables(self._job.grace_s).items():
            env.setdefault(name, value)
        starter = environment.install_torchrun(self._attempt_dir)
        return ranks.torchrun_command(self._job.ranks, master, command, python, starter)

    def _command(self, directories: JobDirectories, python: str) -> list[str]:
        job = self._job
        if job.shell is not None:
            return ["/bin/sh", "-c", job.shell] if job.image else shell_command(job.shell)
        if job.code is not None:
            path = os.path.join(directories.state_dir, "code.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write(job.code)
            return [python, path]
        if not job.argv:
            raise CannotStart(
                "the server sent a job without a command to run. This is a bug in anygpu; report it with the "
                "spec of the job (`anygpu show --spec`)"
            )
        return [python if job.argv[0] in ("python", "python3") else job.argv[0], *job.argv[1:]]


def _with_installer_variables(env: dict[str, str]) -> dict[str, str]:
    """Return the job's variables, and those that configure installers unless the job sets them itself."""
    return {**installer_variables(os.environ), **env}


def shell_command(line: str) -> list[str]:
    shell = "/bin/bash" if os.path.exists("/bin/bash") else "/bin/sh"
    return [shell, "-c", line]


def describe_error(error: OSError, directory: str) -> str:
    """Return a message for the owner of the job. For a full disk, the message includes the size of the disk."""
    if error.errno not in DISK_FULL:
        return str(error)
    disk = os.statvfs(directory)
    free, total = disk.f_bavail * disk.f_frsize / 2**30, disk.f_blocks * disk.f_frsize / 2**30
    return (
        f"the disk is full ({free:.1f} of {total:.1f} GiB free at {directory}). "
        "Request more with resources.disk, or leave out files that the job does not need."
    )


def _check_python_for_trainers(python: str) -> None:
    """Raise `CannotStart` if the job uses the agent's own interpreter and that is too old for trainers.

    Any other interpreter is not checked here: if it is too old, the trainer itself says so when it starts.
    """
    version = environment.agent_python_version()
    if python == sys.executable and tuple(map(int, version.split(".")[:2])) < MIN_PYTHON_FOR_TRAINERS:
        raise CannotStart(
            f"trainers need Python 3.10 or newer, and this machine has Python {version}. Install a newer "
            "Python and set `python` in the spec to its path, or set `image`."
        )
