"""The end of an attempt, told to the server.

By the agent that ran it, or by one that finds what a dead one left.
"""

from __future__ import annotations

import time

from anygpu.agent.assignment import Assignment
from anygpu.agent.lease import Lease, boot_clock
from anygpu.agent.orders import Orders
from anygpu.agent.sender import Sender
from anygpu.agent.spool import Spool
from anygpu.agent.wire import Refused, Server, persist

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from anygpu.agent.home import Home
    from anygpu.agent.wire import Place

TOLD, UNTOLD, NOBODY = 0, 1, 77


def deliver_for_the_dead(home: Home, place: Place) -> int:
    """Send what lies in the spool, then say that its agent was lost. Never starts the user's process."""
    answer = home.read("work.json")
    if answer is None:
        return TOLD  # it was never claimed, so there is nothing to tell
    assignment = Assignment(answer)
    end_what_still_runs(home, assignment)
    spool = Spool(home.spool, assignment.work.spool_limit_bytes)
    until = time.monotonic() + assignment.deliver_s
    orders = Orders(wake=lambda: None)
    lease = Lease(boot_clock(), assignment.deliver_s)
    sender = Sender(Server(place, assignment.token), spool, lease, orders, assignment.heartbeat_s)
    sender.start()
    if not sender.deliver_all(until):
        return UNTOLD if orders.rejection is None else NOBODY
    message = "the agent on the machine ended without a word; this is what it had written down"
    end = end_of("agent_lost", spool, message=message)
    return tell_the_end(Server(place, assignment.token), end, until, home)


def end_what_still_runs(home: Home, assignment: Assignment) -> None:
    started = home.read("process.json")
    if started is None:
        return

    from anygpu.agent import descendants
    from anygpu.agent.identity import identity
    from anygpu.agent.process import end_also

    end_also(started.get("ends_with") or [])
    pid = started["pid"]
    same = pid is not None and identity(pid)["start_ticks"] == started["start_ticks"]
    descendants.end(pid if same else None, assignment.name)


def end_of(
    outcome: str, spool: Spool, exit_code: int | None = None, signal: int | None = None, message: str = ""
) -> dict[str, Any]:
    return {
        "outcome": outcome,
        "exit_code": exit_code,
        "signal": signal,
        "message": message,
        "last_seq": spool.last_seq,
        "log_bytes": spool.log_bytes,
        "metric_points": spool.metric_points,
        "step": spool.step,
    }


def tell_the_end(server: Server, end: dict[str, Any], until: float, home: Home) -> int:
    """Once it is told nothing here is needed any more, secrets and token least of all."""
    try:
        persist(lambda: server.call("POST", "/agent/v1/end", end), until, server.place.rest)
    except Refused as refusal:
        if refusal.we_are_nobody:
            return NOBODY
        raise
    home.forget("work.json", "spool", "snapshots", "dataset")
    return TOLD
