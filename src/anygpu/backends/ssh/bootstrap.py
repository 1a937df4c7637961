"""Run a request on a machine with one SSH command, which installs the agent first if necessary.

The command finds a Python on the machine. All data passes through its standard input and output, so a request
takes few round trips and needs no SFTP server, and the errors are those that the machine printed.
"""

import asyncio
import contextlib
import json
import shlex
import tempfile
import threading
from collections import deque
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from anygpu.agent.build import build_pyz
from anygpu.backends.ssh.errors import BootstrapFailed, DiskFull, NoPython
from anygpu.errors import LaunchError

if TYPE_CHECKING:
    import asyncssh


@dataclass(frozen=True, slots=True)
class AgentArchive:
    data: bytes
    sha256: str


@cache
def build_archive() -> AgentArchive:
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory) / "anygpu-agent.pyz"
        sha256 = build_pyz(target)
        return AgentArchive(target.read_bytes(), sha256)


_build_lock = threading.Lock()


async def agent_archive() -> AgentArchive:
    """Return the archive of the agent, anygpu-agent.pyz.

    It is built once, in a thread, even if several callers need it at the same time.
    """
    return build_archive() if build_archive.cache_info().currsize else await asyncio.to_thread(_build_once)


def _build_once() -> AgentArchive:
    with _build_lock:
        return build_archive()


@cache
def bootstrap_program() -> bytes:
    """Return the source of the program that installs the agent. The machine's own Python runs it."""
    import anygpu.agent.host

    return Path(anygpu.agent.host.__file__).with_name("bootstrap.py").read_bytes()


PREFIX = b"anygpu:"
NO_PYTHON = b"anygpu-no-python"
CHUNK_BYTES = 1 << 17
PYTHONS = ("python3", *(f"python3.{minor}" for minor in range(14, 8, -1)), "python")
PYTHON_PATHS = (
    "/usr/bin/python3",
    "/usr/local/bin/python3",
    "~/miniconda3/bin/python3",
    "~/anaconda3/bin/python3",
)

# No single quotes, backslashes or exclamation marks, because the user's login shell, of any kind, reads this first.
# A Python that is too old exits with 97, one without -I exits with 2; neither has read standard input.
FIND_PYTHON = (
    'n="$1"; shift; seen=""; for p in "$@"; do command -v "$p" >/dev/null 2>&1 || continue; '
    '"$p" -I -S -c "import sys; sys.version_info < (3, 9) and sys.exit(97); '
    'exec(sys.stdin.buffer.read($n))"; code=$?; '
    'case $code in 97|2) seen="$seen $p";; *) exit $code;; esac; '
    'done; echo "anygpu-no-python$seen"; exit 127'
)


class BootstrapSession:
    """One bootstrap command on a machine: send a request, then read the answers."""

    def __init__(
        self, process: "asyncssh.SSHClientProcess[bytes]", machine: str, archive: AgentArchive
    ) -> None:
        self._process = process
        self._archive = archive
        self._machine = machine
        self._output: deque[str] = deque(maxlen=8)  # other output of the command, for error messages

    @classmethod
    async def open(
        cls, connection: "asyncssh.SSHClientConnection", *, machine: str, python: str = ""
    ) -> "BootstrapSession":
        """Start the command on the machine, and return the session.

        Python starts on the machine while the caller prepares the request.
        """
        import asyncssh

        archive = await agent_archive()
        process: asyncssh.SSHClientProcess[bytes] = await connection.create_process(
            bootstrap_command(python), encoding=None, stderr=asyncssh.STDOUT
        )
        session = cls(process, machine, archive)
        await session.send_data(bootstrap_program())
        return session

    async def send_request(self, request: dict[str, Any]) -> None:
        """Send the request. May be called once per session.

        `next_answer` uploads the agent if the machine does not have it.
        """
        draft = str(request.get("target") or request["do"])
        agent = {"sha256": self._archive.sha256, "size": len(self._archive.data), "draft": draft}
        await self.send_data(json.dumps({**agent, "request": request}).encode() + b"\n")

    async def next_answer(self) -> dict[str, Any] | None:
        """Return the next answer, or None if the command has ended. Upload the agent when the machine asks for it."""
        while (line := await self._process.stdout.readline()) != b"":
            if line.startswith(NO_PYTHON):
                raise self._no_python(line)
            if not line.startswith(PREFIX):
                self._output.append(line.decode("utf-8", "replace").rstrip())
                continue
            facts: dict[str, Any] = json.loads(line[len(PREFIX) :])
            if "error" in facts:
                raise self._bootstrap_error(facts)
            if "send_from" not in facts:
                return facts
            await self.send_data(self._archive.data[facts["send_from"] :])
        return None

    async def single_answer(self) -> dict[str, Any]:
        """Return the next answer. Raise if the command ends without one."""
        facts = await self.next_answer()
        if facts is None:
            raise self._no_answer()
        return facts

    def _no_answer(self) -> LaunchError:
        """Build the error for a command that ended without an answer. Its message quotes the command's output."""
        text = "; ".join(line for line in self._output if line) or "it printed nothing"
        return BootstrapFailed(
            f"{self._machine}: the command that installs the agent over SSH ended without an answer: {text}",
            hint="Log in to the machine with ssh, and check that its login shell runs commands and prints nothing "
            "else.",
            machine=self._machine,
            step="bootstrap",
        )

    def close(self) -> None:
        self._process.close()

    async def __aenter__(self) -> "BootstrapSession":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def send_data(self, data: bytes) -> None:
        """Write to the command's standard input.

        A broken pipe is ignored, because the command's answer or output explains it.
        """
        view = memoryview(data)
        with contextlib.suppress(BrokenPipeError):
            for start in range(0, len(view), CHUNK_BYTES):
                self._process.stdin.write(bytes(view[start : start + CHUNK_BYTES]))
                await self._process.stdin.drain()

    def _no_python(self, line: bytes) -> LaunchError:
        seen = line.decode("utf-8", "replace").split()[1:]
        found = f"only {', '.join(seen)}, which is older" if seen else "none"
        return NoPython(
            f"{self._machine}: Python 3.9 or newer is needed, found {found}",
            hint="Install it there: apt install python3, or without root: curl -LsSf "
            "https://astral.sh/uv/install.sh | sh; uv python install --default 3.12",
            machine=self._machine,
            step="bootstrap",
        )

    def _bootstrap_error(self, facts: dict[str, Any]) -> LaunchError:
        full = facts["error"] == "disk_full"
        kind = DiskFull if full else BootstrapFailed
        hint = (
            f"Free some space in the home directory on {self._machine}."
            if full
            else "Log in to the machine with ssh and try the failed step there."
        )
        text = f"{self._machine}: the agent could not be installed: {facts['detail']}"
        return kind(text, hint=hint, machine=self._machine, step="bootstrap")


def bootstrap_command(python: str = "") -> str:
    """Return the command line that starts the bootstrap program from the machine's login shell."""
    chosen = (shlex.quote(python),) if python else (*PYTHONS, *PYTHON_PATHS)
    return f"sh -c '{FIND_PYTHON}' anygpu {len(bootstrap_program())} {' '.join(chosen)}"


async def run_request(
    connection: "asyncssh.SSHClientConnection",
    request: dict[str, Any],
    *,
    machine: str,
    python: str = "",
    timeout_s: float = 300,
) -> dict[str, Any]:
    """Run a request that has exactly one answer, and return the answer."""
    async with asyncio.timeout(timeout_s):
        async with await BootstrapSession.open(connection, machine=machine, python=python) as session:
            await session.send_request(request)
            return await session.single_answer()
