"""The agent's story: hold the directory, claim the attempt, run it, deliver all of it, leave.

Leaves with 0 when the server has been told the end, 1 when it could not be told (the spool stays for `--deliver`),
2 when called wrongly, 75 when another agent has this attempt, 77 when the server does not know us.
"""

from __future__ import annotations

import os
import sys
import time

from anygpu.agent.assignment import Assignment
from anygpu.agent.attempt_dir import AttemptDir, process_identity
from anygpu.agent.link.client import RequestRefused, ServerAddress, ServerClient, retry_until
from anygpu.agent.link.http11 import Unreachable
from anygpu.agent.link.orders import boot_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROTOCOL = 1
EXIT_DELIVERED, EXIT_UNDELIVERED, EXIT_USAGE, EXIT_DUPLICATE, EXIT_REJECTED = 0, 1, 2, 75, 77
CLAIM_FOR_S = 900.0


def main(argv: list[str]) -> int:
    # Threads hand over quickly: the first line of output must not wait for an import to finish.
    sys.setswitchinterval(0.0005)
    if len(argv) == 2 and argv[0] == "--deliver":
        return _with_lock(AttemptDir(argv[1]), deliver)
    if len(argv) == 1 and not argv[0].startswith("-"):
        return _with_lock(AttemptDir(argv[0]), run)
    if argv and argv[0] in ("--check", "--list", "--start", "--watch", "--kill"):
        from anygpu.agent.host import requests

        return requests.main(argv)
    if argv == ["--spare"]:
        return _run_prewarmed()
    _print_error("usage: anygpu-agent <directory> | anygpu-agent --deliver <directory>")
    return EXIT_USAGE


def _run_prewarmed() -> int:
    from anygpu.agent.host.prewarmed import wait_for_attempt

    directory = wait_for_attempt()
    return EXIT_DELIVERED if directory is None else _with_lock(AttemptDir(directory), run)


def run(attempt_dir: AttemptDir, ticket: dict[str, Any]) -> int:
    if attempt_dir.read_json("process.json") is not None:
        # An agent was here before us and started the job: a second start would run it twice.
        return deliver(attempt_dir, ticket)
    attempt_dir.write_json("agent.json", process_identity(os.getpid()))
    address = server_address(attempt_dir, ticket)
    sent_at, assignment = claim(attempt_dir, ticket, address)

    from anygpu.agent.attempt import AttemptRunner

    notices = str(ticket.get("notices") or "")
    return AttemptRunner(
        attempt_dir, address, assignment, sent_at, notices, lambda: claim(attempt_dir, ticket, address)[1]
    ).run()


def deliver(attempt_dir: AttemptDir, ticket: dict[str, Any]) -> int:
    from anygpu.agent.delivery import deliver_for_dead_agent

    return deliver_for_dead_agent(attempt_dir, server_address(attempt_dir, ticket))


def server_address(attempt_dir: AttemptDir, ticket: dict[str, Any]) -> ServerAddress:
    """Where the server is: the ticket knows, or it names a file beside it that does."""
    if not ticket.get("rendezvous"):
        return ServerAddress(ticket["url"])

    from anygpu.agent.link.client import TunnelAddress

    return TunnelAddress(attempt_dir.join(ticket["rendezvous"]))


def claim(
    attempt_dir: AttemptDir, ticket: dict[str, Any], address: ServerAddress
) -> tuple[float, Assignment]:
    """Ours, or an error that says whose. Asking again with the same claimant is asking once."""
    server = ServerClient(address)
    request = {
        "protocol": PROTOCOL,
        "ticket": ticket["ticket"],
        "claimant": attempt_dir.claimant(),
        "host": describe_host(),
        "agent_version": sys.modules["anygpu"].__version__,
    }
    sent = [0.0]

    def ask() -> dict[str, Any]:
        sent[0] = boot_clock()
        return server.call("POST", "/agent/v1/claim", request)

    until = time.monotonic() + float(ticket.get("claim_for_s", CLAIM_FOR_S))
    response = retry_until(ask, until, address.wait)
    server.close()
    attempt_dir.write_json("work.json", response)
    return sent[0], Assignment(response)


def describe_host() -> dict[str, Any]:
    system = os.uname()
    return {
        "hostname": system.nodename,
        "system": system.sysname,
        "machine": system.machine,
        "python": sys.version.split()[0],
        "cpus": os.cpu_count() or 1,
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "pid": os.getpid(),
    }


def _with_lock(attempt_dir: AttemptDir, act: Any) -> int:
    if not attempt_dir.lock():
        return EXIT_DUPLICATE
    ticket = attempt_dir.read_json("ticket.json")
    if ticket is None:
        _print_error(
            f"{attempt_dir.path} has no ticket.json; a backend puts it there before it starts the agent"
        )
        return EXIT_USAGE
    try:
        return int(act(attempt_dir, ticket))
    except Unreachable as error:
        _print_error(f"gave up: {error}")
        return EXIT_UNDELIVERED
    except RequestRefused as error:
        _print_error(f"refused: {error}")
        return EXIT_DUPLICATE if error.code == "claimed" else EXIT_REJECTED


def _print_error(text: str) -> None:
    sys.stderr.write(f"anygpu-agent: {text}\n")
