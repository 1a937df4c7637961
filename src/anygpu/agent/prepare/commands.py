"""Run the commands that prepare a job: set-up commands, installers, image pulls."""

from __future__ import annotations

from anygpu.agent.run.loop import Interrupted
from anygpu.agent.run.process import JobProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from anygpu.agent.link.reporter import Reporter
    from anygpu.agent.run.loop import ProcessLoop
    from anygpu.agent.run.output import SecretMask

TAIL_BYTES = 4000
TAIL_LINES = 5


class CommandResult:
    """The exit code of a command and the last lines of its output."""

    __slots__ = ("exit_code", "tail")

    def __init__(self, exit_code: int | None, tail: str) -> None:
        self.exit_code, self.tail = exit_code, tail


class CommandRunner:
    """Runs commands and writes their output to the job's log.

    These commands are stopped for the same reasons as the job: an order from the server, an expired lease,
    the job's timeout, or a preemption.
    """

    def __init__(self, attempt_name: str, loop: ProcessLoop, reporter: Reporter, mask: SecretMask) -> None:
        self._attempt_name = attempt_name
        self._loop = loop
        self._reporter = reporter
        self._mask = mask

    def run(self, argv: Sequence[str], cwd: str, env: dict[str, str]) -> CommandResult:
        process = JobProcess(argv, cwd, env, self._attempt_name)
        tail = bytearray()

        def write(data: bytes) -> None:
            self._reporter.write_output(data)
            tail.extend(data)
            del tail[:-TAIL_BYTES]

        end = self._loop.run(process, lambda data: write(self._mask.feed(data)), saves=False)
        write(self._mask.close())
        if end.stop is not None:
            raise Interrupted(end.stop)
        return CommandResult(end.return_code, _last_lines(bytes(tail)))


def _last_lines(output: bytes) -> str:
    lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines()]
    return "\n".join([line for line in lines if line][-TAIL_LINES:])
