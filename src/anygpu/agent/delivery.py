"""Report the end of an attempt to the server, for this agent or for an earlier agent that died."""

from __future__ import annotations

import sys
import time

from anygpu.agent import exit_codes
from anygpu.agent.assignment import Assignment
from anygpu.agent.attempt_dir import ENDING_FILE
from anygpu.agent.link.client import RequestRefused, ServerClient, retry_until
from anygpu.agent.link.orders import AttemptLease, ServerOrders, boot_clock
from anygpu.agent.link.sender import ReportSender
from anygpu.agent.link.spool import Spool
from anygpu.bounds import MAX_END_MESSAGE_LENGTH, is_step, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from anygpu.agent.attempt_dir import AttemptDir
    from anygpu.agent.link.client import ServerAddress

RESULTS_MISSING = "results_missing"  # the outcome if the job succeeded, but its results could not be uploaded
AGENT_LOST = "agent_lost"  # the outcome if the agent failed, so that nobody knows how the job ended


def deliver_for_dead_agent(attempt_dir: AttemptDir, address: ServerAddress) -> int:
    """Send the reports that a dead agent left on disk, and the end of its attempt (`agent_lost`).

    Kills what is left of the job, and never starts the job again. Returns the exit code for this process.
    """
    response = attempt_dir.read_json("work.json")
    if response is None:
        return exit_codes.DELIVERED  # never claimed, or already delivered
    assignment = Assignment(response)
    kill_leftovers(attempt_dir, assignment)
    spool = Spool(attempt_dir.spool_dir, assignment.job.spool_limit_bytes)
    deadline = time.monotonic() + assignment.deliver_s
    orders = ServerOrders(wake=lambda: None)
    lease = AttemptLease(boot_clock(), assignment.deliver_s)
    server = ServerClient(address, assignment.token)
    sender = ReportSender(server, spool, lease, orders, assignment.heartbeat_s)
    sender.start()
    if not sender.deliver_all(deadline):
        return exit_codes.UNDELIVERED if orders.rejection is None else exit_codes.REJECTED
    message = "the agent on the machine died; the reports it had stored were delivered"
    end = end_message(AGENT_LOST, spool, message=message)
    return send_end(ServerClient(address, assignment.token), end, deadline, attempt_dir)


def kill_leftovers(attempt_dir: AttemptDir, assignment: Assignment) -> None:
    """Kill the processes and the container that are left of the dead agent's job."""
    started = attempt_dir.read_json("process.json")
    if started is None:
        return

    from anygpu.agent.attempt_dir import process_identity
    from anygpu.agent.host import processes
    from anygpu.agent.run.process import run_kill_command

    run_kill_command(started.get("ends_with") or [])
    pid = started["pid"]
    is_same_process = pid is not None and process_identity(pid)["start_ticks"] == started["start_ticks"]
    processes.kill_tree(pid if is_same_process else None, assignment.name)


def end_message(
    outcome: str,
    spool: Spool,
    exit_code: int | None = None,
    signal: int | None = None,
    message: str = "",
    memory: dict[str, Any] | None = None,
) -> dict[str, Any]:
    return {
        "outcome": outcome,
        "exit_code": exit_code,
        "signal": signal,
        "message": to_text(message, MAX_END_MESSAGE_LENGTH),
        "last_seq": spool.last_seq,
        "log_bytes": spool.log_bytes,
        "metric_points": spool.metric_points,
        "step": spool.step if is_step(spool.step) else None,
        **({"memory": memory} if memory else {}),
    }


def send_end(
    server: ServerClient,
    end: dict[str, Any],
    deadline: float,
    attempt_dir: AttemptDir,
    wait_for_nodes: Callable[[], None] = lambda: None,
) -> int:
    """Report the end of the attempt to the server, and return the agent's exit code.

    `wait_for_nodes` is called if other nodes of the attempt still run. After `agent_lost` it is not, because the server
    records no end of this node: its machine must count as lost, so that the other nodes are stopped.

    Then removes the files that are no longer needed, including those with the token and the secrets.
    """
    refusal: RequestRefused | None = None
    attempt_dir.create_marker(ENDING_FILE)
    for body in (end, _essential(end)):
        try:
            answer = _post_end(server, body, deadline)
        except RequestRefused as error:
            if error.is_rejection:
                return exit_codes.REJECTED
            if error.is_transient:
                raise
            refusal = error
        else:
            attempt_dir.remove("work.json", "spool", "snapshots", "dataset", ENDING_FILE)
            if answer.get("wait") and end["outcome"] != AGENT_LOST:
                wait_for_nodes()
            return exit_codes.DELIVERED
    sys.stderr.write(f"anygpu-agent: the server refused the report that the job has ended: {refusal}\n")
    return exit_codes.UNDELIVERED


def _essential(end: dict[str, Any]) -> dict[str, Any]:
    """Return an end report without its optional fields, for a server that refuses one of them."""
    return {name: end[name] for name in ("outcome", "exit_code", "signal", "last_seq")}


def _post_end(server: ServerClient, end: dict[str, Any], deadline: float) -> dict[str, Any]:
    try:
        return retry_until(lambda: server.call("POST", "/agent/v1/end", end), deadline, server.address.wait)
    except RequestRefused as refusal:
        if refusal.code != "gap":
            raise
        # The server has lost reports that it had acknowledged. The agent has them no longer either.
        known = {**end, "last_seq": int(refusal.problem.get("expected", 1)) - 1}
        return retry_until(lambda: server.call("POST", "/agent/v1/end", known), deadline, server.address.wait)
