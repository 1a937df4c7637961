"""The agent's story: hold the directory, claim the attempt, run it, deliver all of it, leave.

Leaves with 0 when the server has been told the end, 1 when it could not be told (the spool stays for `--deliver`),
2 when called wrongly, 75 when another agent has this attempt, 77 when the server does not know us.
"""

from __future__ import annotations

import os
import sys
import time

from anygpu.agent.assignment import Assignment
from anygpu.agent.home import Home
from anygpu.agent.http11 import Unreachable
from anygpu.agent.identity import identity
from anygpu.agent.lease import boot_clock
from anygpu.agent.wire import Place, Refused, Server, persist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

PROTOCOL = 1
TOLD, UNTOLD, USAGE, TWIN, NOBODY = 0, 1, 2, 75, 77
CLAIM_FOR_S = 900.0


def main(argv: list[str]) -> int:
    # Threads hand over quickly: the first line of output must not wait for an import to finish.
    sys.setswitchinterval(0.0005)
    if len(argv) == 2 and argv[0] == "--deliver":
        return _holding(Home(argv[1]), deliver)
    if len(argv) == 1 and not argv[0].startswith("-"):
        return _holding(Home(argv[0]), run)
    if argv and argv[0] in ("--check", "--list", "--start", "--watch", "--kill"):
        from anygpu.agent.box import main as box

        return box(argv)
    if argv == ["--spare"]:
        return _spare()
    _say("usage: anygpu-agent <directory> | anygpu-agent --deliver <directory>")
    return USAGE


def _spare() -> int:
    from anygpu.agent.spare import wait_for_work

    directory = wait_for_work()
    return TOLD if directory is None else _holding(Home(directory), run)


def run(home: Home, ticket: dict[str, Any]) -> int:
    if home.read("process.json") is not None:
        # An agent was here before us and started the job: a second start would run it twice.
        return deliver(home, ticket)
    home.write("agent.json", identity(os.getpid()))
    place = place_of(home, ticket)
    sent_at, assignment = claim(home, ticket, place)

    from anygpu.agent.attempt import Attempt

    notices = str(ticket.get("notices") or "")
    return Attempt(home, place, assignment, sent_at, notices, lambda: claim(home, ticket, place)[1]).run()


def deliver(home: Home, ticket: dict[str, Any]) -> int:
    from anygpu.agent.delivery import deliver_for_the_dead

    return deliver_for_the_dead(home, place_of(home, ticket))


def place_of(home: Home, ticket: dict[str, Any]) -> Place:
    """Where the server is: the ticket knows, or it names a file beside it that does."""
    if not ticket.get("rendezvous"):
        return Place(ticket["url"])

    from anygpu.agent.rendezvous import Rendezvous

    return Rendezvous(home.join(ticket["rendezvous"]))


def claim(home: Home, ticket: dict[str, Any], place: Place) -> tuple[float, Assignment]:
    """Ours, or an error that says whose. Asking again with the same claimant is asking once."""
    server = Server(place)
    request = {
        "protocol": PROTOCOL,
        "ticket": ticket["ticket"],
        "claimant": home.claimant(),
        "host": host(),
        "agent_version": sys.modules["anygpu"].__version__,
    }
    sent = [0.0]

    def ask() -> dict[str, Any]:
        sent[0] = boot_clock()
        return server.call("POST", "/agent/v1/claim", request)

    until = time.monotonic() + float(ticket.get("claim_for_s", CLAIM_FOR_S))
    answer = persist(ask, until, place.rest)
    server.close()
    home.write("work.json", answer)
    return sent[0], Assignment(answer)


def host() -> dict[str, Any]:
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


def _holding(home: Home, act: Any) -> int:
    if not home.lock():
        return TWIN
    ticket = home.read("ticket.json")
    if ticket is None:
        _say(f"{home.path} has no ticket.json; a backend puts it there before it starts the agent")
        return USAGE
    try:
        return int(act(home, ticket))
    except Unreachable as error:
        _say(f"gave up: {error}")
        return UNTOLD
    except Refused as error:
        _say(f"refused: {error}")
        return TWIN if error.code == "claimed" else NOBODY


def _say(text: str) -> None:
    sys.stderr.write(f"anygpu-agent: {text}\n")
