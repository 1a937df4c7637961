"""The end of an attempt, told to the server.

By the agent that ran it, or by one that finds what a dead one left.
"""

from __future__ import annotations

import time

from anygpu.agent.assignment import Assignment
from anygpu.agent.link.client import RequestRefused, ServerClient, retry_until
from anygpu.agent.link.orders import AttemptLease, ServerOrders, boot_clock
from anygpu.agent.link.sender import ReportSender
from anygpu.agent.link.spool import Spool

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from anygpu.agent.attempt_dir import AttemptDir
    from anygpu.agent.link.client import ServerAddress

EXIT_DELIVERED, EXIT_UNDELIVERED, EXIT_REJECTED = 0, 1, 77


def deliver_for_dead_agent(attempt_dir: AttemptDir, address: ServerAddress) -> int:
    """Send what lies in the spool, then say that its agent was lost. Never starts the user's process."""
    response = attempt_dir.read_json("work.json")
    if response is None:
        return EXIT_DELIVERED  # it was never claimed, so there is nothing to tell
    assignment = Assignment(response)
    kill_leftovers(attempt_dir, assignment)
    spool = Spool(attempt_dir.spool_dir, assignment.job.spool_limit_bytes)
    deadline = time.monotonic() + assignment.deliver_s
    orders = ServerOrders(wake=lambda: None)
    lease = AttemptLease(boot_clock(), assignment.deliver_s)
    sender = ReportSender(
        ServerClient(address, assignment.token), spool, lease, orders, assignment.heartbeat_s
    )
    sender.start()
    if not sender.deliver_all(deadline):
        return EXIT_UNDELIVERED if orders.rejection is None else EXIT_REJECTED
    message = "the agent on the machine ended without a word; this is what it had written down"
    end = end_message("agent_lost", spool, message=message)
    return send_end(ServerClient(address, assignment.token), end, deadline, attempt_dir)


def kill_leftovers(attempt_dir: AttemptDir, assignment: Assignment) -> None:
    started = attempt_dir.read_json("process.json")
    if started is None:
        return

    from anygpu.agent.attempt_dir import process_identity
    from anygpu.agent.host import processes
    from anygpu.agent.run.process import run_kill_command

    run_kill_command(started.get("ends_with") or [])
    pid = started["pid"]
    same = pid is not None and process_identity(pid)["start_ticks"] == started["start_ticks"]
    processes.kill_tree(pid if same else None, assignment.name)


def end_message(
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


def send_end(server: ServerClient, end: dict[str, Any], deadline: float, attempt_dir: AttemptDir) -> int:
    """Once it is told nothing here is needed any more, secrets and token least of all."""
    try:
        retry_until(lambda: server.call("POST", "/agent/v1/end", end), deadline, server.address.wait)
    except RequestRefused as refusal:
        if refusal.is_rejection:
            return EXIT_REJECTED
        raise
    attempt_dir.remove("work.json", "spool", "snapshots", "dataset")
    return EXIT_DELIVERED
