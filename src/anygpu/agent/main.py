"""The agent's entry point: lock the directory, claim the attempt, run it, deliver its reports, exit."""

from __future__ import annotations

import os
import sys
import time

from anygpu.agent import exit_codes
from anygpu.agent.assignment import Assignment
from anygpu.agent.attempt_dir import AttemptDir, process_identity
from anygpu.agent.link.client import RequestRefused, ServerAddress, ServerClient, TunnelAddress, retry_until
from anygpu.agent.link.http11 import Unreachable
from anygpu.agent.link.orders import boot_clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Ticket = dict[str, Any]

PROTOCOL = 1
CLAIM_FOR_S = 900.0


def main(argv: list[str]) -> int:
    # Switch threads quickly: the first line of output must not wait until an import has finished.
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
    return exit_codes.USAGE


def _run_prewarmed() -> int:
    from anygpu.agent.prewarmed import wait_for_attempt

    directory = wait_for_attempt()
    return exit_codes.DELIVERED if directory is None else _with_lock(AttemptDir(directory), run)


def run(attempt_dir: AttemptDir, ticket: Ticket) -> int:
    if attempt_dir.read_json("process.json") is not None:
        # An earlier agent has started the job. Starting it again would run it twice.
        return deliver(attempt_dir, ticket)
    attempt_dir.write_json("agent.json", process_identity(os.getpid()))
    address = server_address(attempt_dir, ticket)
    sent_at, assignment = claim(attempt_dir, ticket, address)

    from anygpu.agent.attempt import AttemptRunner

    notice_source = str(ticket.get("notices") or "")
    runner = AttemptRunner(
        attempt_dir,
        address,
        assignment,
        sent_at,
        notice_source,
        lambda: claim(attempt_dir, ticket, address)[1],
    )
    return runner.run()


def deliver(attempt_dir: AttemptDir, ticket: Ticket) -> int:
    from anygpu.agent.delivery import deliver_for_dead_agent

    return deliver_for_dead_agent(attempt_dir, server_address(attempt_dir, ticket))


def server_address(attempt_dir: AttemptDir, ticket: Ticket) -> ServerAddress:
    """Return the server's address: a fixed URL, or a file with the URL of the current tunnel."""
    if ticket.get("rendezvous"):
        return TunnelAddress(attempt_dir.join(ticket["rendezvous"]))
    return ServerAddress(ticket["url"])


def claim(attempt_dir: AttemptDir, ticket: Ticket, address: ServerAddress) -> tuple[float, Assignment]:
    """Claim the attempt: ask the server for it, and become its owner.

    Return the time at which the request was sent (boot clock), and the assignment. If the same agent claims again, it
    gets the same answer. The server refuses the claim if another agent owns the attempt.
    """
    server = ServerClient(address)
    request = {
        "protocol": PROTOCOL,
        "ticket": ticket["ticket"],
        "claimant": attempt_dir.claimant(),
        "host": describe_host(),
        "agent_version": sys.modules["anygpu"].__version__,
    }
    sent_at = 0.0

    def send() -> dict[str, Any]:
        nonlocal sent_at
        sent_at = boot_clock()
        return server.call("POST", "/agent/v1/claim", request)

    deadline = time.monotonic() + float(ticket.get("claim_for_s", CLAIM_FOR_S))
    response = retry_until(send, deadline, address.wait)
    server.close()
    attempt_dir.write_json("work.json", response)
    return sent_at, Assignment(response)


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


def _with_lock(attempt_dir: AttemptDir, act: Callable[[AttemptDir, Ticket], int]) -> int:
    if not attempt_dir.lock():
        return exit_codes.DUPLICATE
    ticket = attempt_dir.read_json("ticket.json")
    if ticket is None:
        _print_error(
            f"{attempt_dir.path} has no file ticket.json, so the agent does not know its server. The backend "
            "must write this file before it starts the agent."
        )
        return exit_codes.USAGE
    try:
        return act(attempt_dir, ticket)
    except Unreachable as error:
        _print_error(
            f"the anygpu server could not be reached: {error}. Check that it runs and that this machine can "
            "connect to it."
        )
        return exit_codes.UNDELIVERED
    except RequestRefused as error:
        _print_error(f"the anygpu server refused the agent's request: {error}")
        return exit_codes.DUPLICATE if error.code == "claimed" else exit_codes.REJECTED


def _print_error(text: str) -> None:
    sys.stderr.write(f"anygpu-agent: {text}\n")
