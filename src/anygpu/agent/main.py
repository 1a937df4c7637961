"""The agent's entry point: lock the directory, claim the attempt, run it, deliver its reports, exit."""

from __future__ import annotations

import contextlib
import os
import sys
import time

from anygpu.agent import exit_codes
from anygpu.agent.assignment import Assignment
from anygpu.agent.attempt_dir import AttemptDir, process_identity
from anygpu.agent.link.client import (
    RequestRefused,
    ServerAddress,
    ServerClient,
    TunnelAddress,
    is_anygpu_server,
    retry_until,
)
from anygpu.agent.link.http11 import Unreachable
from anygpu.agent.link.orders import boot_clock
from anygpu.agent.link.server_list import ServerList

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from anygpu.agent.link.relay import RelayAddress

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
    if argv == ["--engine"]:
        from anygpu.agent.host import engine

        return engine.start_from_environment(lambda directory: main(["--deliver", directory]))
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

    from anygpu.agent.attempt import AttemptRunner, NoticeSources

    if ticket.get("in_image"):
        assignment.job.image = None  # the engine has started the agent in a container of this image
    runner = AttemptRunner(
        attempt_dir,
        address,
        assignment,
        sent_at,
        NoticeSources(
            str(ticket.get("notices") or ""), ticket.get("sigterm_notice_s"), ticket.get("sigurg_notice_s")
        ),
        lambda: claim(attempt_dir, ticket, address)[1],
        str(ticket.get("address") or ""),
    )
    return runner.run()


def deliver(attempt_dir: AttemptDir, ticket: Ticket) -> int:
    from anygpu.agent.delivery import deliver_for_dead_agent

    return deliver_for_dead_agent(attempt_dir, server_address(attempt_dir, ticket))


def server_address(attempt_dir: AttemptDir, ticket: Ticket) -> ServerAddress:
    """Return how to reach the server: a fixed URL, a file with the URL of the current tunnel, or a relay.

    A ticket may have a relay and an address. Then the address is used if the server answers there now. The choice is
    stored, so that an agent that is started again in the same directory makes the same one.
    """
    relay = attempt_dir.read_json("relay.json") or ticket.get("relay")
    if not relay:
        return _direct_address(attempt_dir, ticket)
    choice = attempt_dir.read_json("link.json") or {}
    if "direct" not in choice:
        choice = {"direct": _can_reach_directly(attempt_dir, ticket)}
        attempt_dir.write_json("link.json", choice)
    if choice["direct"] and ticket.get("rendezvous"):
        return _direct_address(attempt_dir, ticket)

    from anygpu.agent.link.relay import RelayAddress

    mailbox = RelayAddress(
        relay, int(ticket.get("node") or 0), lambda renewed: attempt_dir.write_json("relay.json", renewed)
    )
    return _with_fallback(attempt_dir, ticket, mailbox) if choice["direct"] else mailbox


def _direct_address(attempt_dir: AttemptDir, ticket: Ticket) -> ServerAddress:
    if ticket.get("rendezvous"):
        return TunnelAddress(attempt_dir.join(ticket["rendezvous"]))
    return ServerList(
        attempt_dir.join("servers.json"), _ticket_urls(ticket), is_remote=bool(ticket.get("remote"))
    )


def _with_fallback(attempt_dir: AttemptDir, ticket: Ticket, mailbox: RelayAddress) -> ServerAddress:
    """Return the addresses of the ticket, with the relay for the case that they cannot be reached any more."""
    from anygpu.agent.link.fallback import FALLBACK_AFTER_S, RelayFallback

    def store_choice() -> None:
        with contextlib.suppress(OSError):  # the disk is full: only this agent knows
            attempt_dir.write_json("link.json", {"direct": False})

    return RelayFallback(
        attempt_dir.join("servers.json"),
        _ticket_urls(ticket),
        mailbox,
        store_choice,
        is_remote=bool(ticket.get("remote")),
        after_s=float(ticket.get("fallback_after_s", FALLBACK_AFTER_S)),
    )


def _ticket_urls(ticket: Ticket) -> list[str]:
    return [*(ticket.get("urls") or []), *([ticket["url"]] if ticket.get("url") else [])]


def _can_reach_directly(attempt_dir: AttemptDir, ticket: Ticket) -> bool:
    """Return whether an anygpu server answers at an address of the ticket. Sends it no secret."""
    if ticket.get("rendezvous"):
        return is_anygpu_server(_direct_address(attempt_dir, ticket))
    return any(is_anygpu_server(ServerAddress(url)) for url in dict.fromkeys(_ticket_urls(ticket)))


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
        **({"node": int(ticket["node"])} if ticket.get("node") else {}),
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
    address.update(response.get("urls"))
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
