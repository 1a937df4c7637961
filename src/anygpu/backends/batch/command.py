"""The command that a batch engine runs to start the agent of an attempt.

The engine's node must have a Python 3.9 or newer, and a directory with the agent's archive and `ticket.json`. The agent
has no other needs.
"""

import shlex
from typing import Any
from urllib.parse import urlsplit

from anygpu.backends.contract import LaunchRequest
from anygpu.backends.ssh.bootstrap import PYTHON_PATHS, PYTHONS

NO_PYTHON_EXIT = 127
TICKET_FILE = "ticket.json"

# `~` is expanded by the shell, so the candidates must not be quoted.
_FIND_PYTHON = (
    "for python in {pythons}; do "
    'command -v "$python" >/dev/null 2>&1 || continue; '
    '"$python" -I -S -c "import sys; sys.exit(sys.version_info < (3, 9))" 2>/dev/null || continue; '
    "{then}; "
    "done; "
    "echo 'anygpu: no Python 3.9 or newer was found on this node; install one, "
    "or use an image that has one' >&2; exit {code}"
)


def agent_command(agent: str, directory: str, *, python: str = "", deliver: bool = False) -> str:
    """Return the shell command that runs the agent of the attempt in `directory`, with the node's Python.

    `agent` is the path of the agent's archive on the node. The command replaces its shell, so that signals of the
    engine reach the agent. With `deliver`, it only sends the reports that a dead agent left in the directory.
    """
    arguments = f"--deliver {shlex.quote(directory)}" if deliver else shlex.quote(directory)
    return _with_python(python, f'exec "$python" -I -S {shlex.quote(agent)} {arguments}')


def check_command(*, python: str = "") -> str:
    """Return the shell command that ends with exit code 0 if the node has a Python for the agent."""
    return _with_python(python, "exit 0")


def _with_python(python: str, then: str) -> str:
    pythons = shlex.quote(python) if python else " ".join((*PYTHONS, *PYTHON_PATHS))
    return _FIND_PYTHON.format(pythons=pythons, then=then, code=NO_PYTHON_EXIT)


def is_loopback_url(url: str) -> bool:
    """Return whether only programs on the server's own machine can use this address."""
    host = (urlsplit(url).hostname or "").lower()
    return host in ("", "localhost", "::1") or host.startswith("127.")


def ticket_content(
    launch: LaunchRequest,
    node: int = 0,
    *,
    sigterm_notice_s: float | None = None,
    sigurg_notice_s: float | None = None,
    in_image: bool = False,
) -> dict[str, Any]:
    """Return the content of `ticket.json` for an agent that reaches the server directly or through a relay.

    With a relay, an address on the loopback interface is left out: on the engine's machine it would be that of another
    program. `node` is the number of the agent's machine, if the attempt has several.
    `sigterm_notice_s`: the engine ends the agent this many seconds after a SIGTERM. `sigurg_notice_s`: the time limit
    of the engine ends the agent this many seconds after a SIGURG. `in_image`: the engine runs the agent in a container
    of the job's image.
    """
    ticket: dict[str, Any] = {**launch.direct_ticket(), "remote": True}
    if launch.relay:
        ticket["relay"] = launch.relay[node]
        if is_loopback_url(launch.agent_url):
            ticket = {name: value for name, value in ticket.items() if name not in ("url", "urls")}
    if launch.nodes > 1:
        ticket["node"] = node
    notices = {"sigterm_notice_s": sigterm_notice_s, "sigurg_notice_s": sigurg_notice_s}
    ticket.update({name: seconds for name, seconds in notices.items() if seconds is not None})
    return {**ticket, "in_image": True} if in_image else ticket
