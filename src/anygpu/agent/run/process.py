"""The job's process: started in its own session, and killed together with everything it started."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from anygpu.agent.host import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

PIPE_BYTES = 2**20
F_SETPIPE_SZ = 1031  # fcntl.F_SETPIPE_SZ, which Python names only from 3.10 on
LEFTOVER_GRACE_S = 5.0
KILL_COMMAND_TIMEOUT_S = 20.0


class CannotStart(Exception):
    """The job could not be started. The message is shown to the owner of the job."""


class JobProcess:
    """The job's process group, and the pipe with its merged stdout and stderr."""

    def __init__(
        self,
        argv: Sequence[str],
        cwd: str,
        env: dict[str, str],
        name: str,
        held_fds: Sequence[int] = (),
        kill_command: Sequence[str] = (),
    ) -> None:
        """Start the process. `kill_command` kills anything that would outlive it, such as a container."""
        self.name = name
        self._kill_command = list(kill_command)
        self.pipe, writing = os.pipe()
        _enlarge_pipe(self.pipe)
        try:
            self._popen = subprocess.Popen(
                list(argv),
                cwd=cwd,
                env=env,
                stdin=subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                start_new_session=True,
                pass_fds=tuple(held_fds),
            )
        except (OSError, ValueError) as error:
            os.close(self.pipe)
            raise CannotStart(_describe_error(argv, cwd, error)) from error
        finally:
            os.close(writing)
        os.set_blocking(self.pipe, False)
        self.pid = self._popen.pid
        self._terminated: set[int] = set()  # processes that have received SIGTERM

    def poll(self) -> int | None:
        """Return the exit code, or the negative signal number; None while the process runs."""
        return self._popen.poll()

    def terminate(self) -> None:
        """Send SIGTERM to the processes of the job, once to each.

        A script may save its state when it receives SIGTERM, and a second one would interrupt that. So a process that
        gets the signal from another process of the job, or from the program that runs its container, gets none here.
        """
        members, orphans = processes.find_signal_targets(self.name, self.pid)
        if not self._terminated:
            processes.signal_group(self.pid, signal.SIGTERM)
            self._terminated |= members | {self.pid}
        targets = members if self._kill_command else members | orphans
        for pid in targets - self._terminated:
            processes.signal_process(pid, signal.SIGTERM)
        self._terminated |= targets

    def kill(self) -> None:
        """Kill the process and everything it started."""
        run_kill_command(self._kill_command)
        processes.kill_tree(self.pid, self.name)

    def kill_leftovers(self, grace_s: float) -> None:
        """End the children that still run after the process has ended: SIGTERM first, SIGKILL after `grace_s`."""
        if not self.has_leftovers():
            return
        self.terminate()
        until = time.monotonic() + min(grace_s, LEFTOVER_GRACE_S)
        while self.has_leftovers() and time.monotonic() < until:
            time.sleep(0.02)
        self.kill()

    def has_leftovers(self) -> bool:
        """Return whether other processes of the job run."""
        processes.reap_children({self.pid})
        return processes.is_group_alive(self.pid) or bool(processes.find_descendants(self.name, {self.pid}))


def run_kill_command(command: Sequence[str]) -> None:
    """Run the command that kills the container.

    Errors are ignored: processes are also killed by the attempt's name.
    """
    if not command:
        return
    try:
        nothing = subprocess.DEVNULL
        subprocess.run(
            list(command),
            stdin=nothing,
            stdout=nothing,
            stderr=nothing,
            timeout=KILL_COMMAND_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return


def _enlarge_pipe(pipe: int) -> None:
    if sys.platform == "linux":
        import fcntl

        try:
            fcntl.fcntl(pipe, F_SETPIPE_SZ, PIPE_BYTES)
        except OSError:
            return  # the user's pipe quota is used up: keep the default of 64 KiB


def _describe_error(argv: Sequence[str], cwd: str, error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and not os.path.isdir(cwd):
        return f"the working directory {cwd} does not exist. Check that no setup command removes it."
    if isinstance(error, FileNotFoundError):
        return (
            f"the program {argv[0]!r} was not found on this machine. Give its full path in the command, or "
            "install it here."
        )
    if isinstance(error, PermissionError):
        return (
            f"the program {argv[0]!r} is not executable. Run chmod +x on it, or start it with its interpreter "
            "(python FILE)."
        )
    return f"the command {argv[0]!r} could not be started: {error}. Check the command of the job."
