"""Attempts on several nodes (a gang): which events follow when the agent of a node claims, is ready or ends.

All processes start or none: they start when every node is ready. The attempt ends when every node has ended. The
failure of one node stops the others, and ends the attempt at once if a node still has no agent. Pure functions.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from anygpu.bounds import MAX_END_MESSAGE_LENGTH, to_text
from anygpu.control.agents.tickets import AttemptKey
from anygpu.errors import AlreadyClaimed, InvalidReport
from anygpu.events.facts import SIGNAL_EXIT_CODES, Marks, is_killed
from anygpu.events.types import (
    AttemptClaimed,
    AttemptEnded,
    Event,
    NodeClaimed,
    NodeEnded,
    NodeReady,
    StopRequested,
)
from anygpu.events.view import AttemptView, NodeView

PEER = "peer"  # the reason to stop a node because another node has failed
TIMEOUT = "timeout"
NOT_RESTORED = (
    "not_restored"  # the outcome if only some nodes could restore the checkpoint; it is tried again
)
NO_MARKS = Marks()
MAX_ADDRESS_LENGTH = 255
MAX_PORT = 65_535


def claim_events(attempt: AttemptView, key: AttemptKey, host: Mapping[str, str]) -> list[Event]:
    """Return the event that gives a node (or the only machine) to its agent; empty if the agent owns it already."""
    if not 0 <= key.node < attempt.node_count:
        raise InvalidReport(
            f"attempt {key.attempt} of job {key.job_id} has {attempt.node_count} nodes, and the agent claims node "
            f"{key.node}; the backend must write another number to ticket.json"
        )
    owner = attempt.claimant_of(key.node)
    if owner == key.claimant:
        return []
    if owner is not None:
        which = f"node {key.node} of attempt" if attempt.nodes else "attempt"
        raise AlreadyClaimed(
            f"another agent has claimed {which} {key.attempt} of job {key.job_id}; stop this agent"
        )
    if key.node:
        return [NodeClaimed(attempt=key.attempt, node=key.node, claimant=key.claimant, host=dict(host))]
    return [AttemptClaimed(attempt=key.attempt, claimant=key.claimant, host=dict(host))]


def ready_events(
    attempt: AttemptView, key: AttemptKey, body: Mapping[str, Any], marks: Marks = NO_MARKS
) -> list[Event]:
    """Return the event that says that the agent's node is prepared; empty if that is recorded.

    The attempt ends if some nodes have restored the checkpoint and others could not.
    """
    address, port, restored = body.get("address"), body.get("port"), body.get("restored")
    is_address = isinstance(address, str) and 0 < len(address) <= MAX_ADDRESS_LENGTH and address.isprintable()
    if not is_address or type(port) is not int or not 0 < port <= MAX_PORT:
        raise InvalidReport(
            "the request needs `address`, at which the other nodes reach this node, and `port`, a free port on it"
        )
    if restored is not None and not isinstance(restored, bool):
        raise InvalidReport("the field 'restored' of the request is not a boolean; send true or false")
    if not attempt.nodes:
        raise InvalidReport("the attempt has only one node, which waits for no other; start the job")
    if attempt.nodes[key.node].ready_at_ms is not None:
        return []
    ready = NodeReady(attempt=key.attempt, node=key.node, address=str(address), port=port, restored=restored)
    nodes = [*attempt.nodes]
    nodes[key.node] = replace(nodes[key.node], restored=restored)
    return [ready, *_mixed_restore_events(attempt.number, nodes, marks)]


def _mixed_restore_events(attempt: int, nodes: list[NodeView], marks: Marks) -> list[Event]:
    """Return the end of an attempt in which some nodes have the checkpoint and others do not; empty otherwise.

    If they started, only some would continue training. If no node could restore it, all start from the beginning.
    """
    missing = [str(number) for number, node in enumerate(nodes) if node.restored is False]
    if not missing or not any(node.restored for node in nodes):
        return []
    text = (
        f"the checkpoint could not be restored on node {', '.join(missing[:10])}, but on others; nothing has run. "
        f"See the log of that node (anygpu logs --node {missing[0]})"
    )
    return [AttemptEnded(attempt=attempt, outcome=NOT_RESTORED, message=text, marks=marks)]


def start_fields(attempt: AttemptView) -> dict[str, Any]:
    """Return the answer to an agent whose node is ready: whether to start, and where the processes find each other."""
    missing = [number for number, node in enumerate(attempt.nodes) if node.ready_at_ms is None]
    first = attempt.nodes[0]
    if missing:
        return {"start": False, "missing": missing}
    return {"start": True, "missing": [], "master_addr": first.address, "master_port": first.port}


def leave_events(attempt: AttemptView, key: AttemptKey, body: Mapping[str, Any]) -> list[Event]:
    """Return the request to stop all nodes, because one of them stops by itself; empty if they stop already.

    The node is being preempted, or has reached the time limit of the job. The agents start at different times, so one
    of them reaches it first.
    """
    if not attempt.nodes or attempt.stop_reason is not None or attempt.nodes[key.node].has_ended:
        return []
    message = to_text(str(body.get("message") or "its machine is being shut down"), MAX_END_MESSAGE_LENGTH)
    if body.get("reason") == TIMEOUT:
        return [StopRequested(attempt=key.attempt, reason=TIMEOUT)]
    return [StopRequested(attempt=key.attempt, reason="preempt", message=f"node {key.node}: {message}")]


def end_events(attempt: AttemptView, ended: NodeEnded, marks: Marks) -> list[Event]:
    """Return the events of the end of a node. The last node that ends also ends the attempt.

    A failure ends the attempt at once if no agent has claimed another node yet. Then no process has started anywhere,
    and that node may get no machine for a long time.
    """
    nodes = [*attempt.nodes]
    nodes[ended.node] = NodeView(
        ended_at_ms=0,
        outcome=ended.outcome,
        exit_code=ended.exit_code,
        signal=ended.signal,
        message=ended.message,
        step=ended.step,
        memory=ended.memory,
    )
    fails_before_start = nodes[ended.node].has_failed and not attempt.is_claimed
    if not fails_before_start and not all(node.has_ended for node in nodes):
        return [ended]
    return [ended, _attempt_end(attempt.number, nodes, marks)]


def _attempt_end(attempt: int, nodes: list[NodeView], marks: Marks) -> AttemptEnded:
    number = find_cause(nodes)
    cause = nodes[number]
    message = f"node {number}: {cause.message}" if cause.message and cause.has_failed else cause.message
    return AttemptEnded(
        attempt=attempt,
        outcome=cause.outcome or "",
        exit_code=cause.exit_code,
        signal=cause.signal,
        message=message,
        step=nodes[0].step,
        marks=marks,
        memory=cause.memory,
    )


def find_cause(nodes: list[NodeView]) -> int:
    """Return the number of the node whose end explains the end of the attempt.

    When a process is killed, the processes on other nodes lose their connections to it and fail with an exit code, or
    abort (NCCL). So a node that was killed or stopped is the cause, rather than one that failed by itself. A crash by
    another signal comes after that, and before an exit code. A node that has reached the time limit comes before nodes
    that were stopped.
    """
    return max(range(len(nodes)), key=lambda number: (_cause_rank(nodes[number]), -number))


def _cause_rank(node: NodeView) -> int:
    if not node.has_failed or is_stopped_by_peer(node):
        return 0
    if node.outcome == "failed_to_start":
        return 6
    if node.outcome == TIMEOUT:
        return 5
    if node.outcome != "exited":
        return 4
    is_out_of_memory = node.memory is not None and bool(node.memory.oom_killed)
    if is_out_of_memory or is_killed(node.exit_code, node.signal):
        return 3
    has_crashed = node.signal is not None or (node.exit_code or 0) > SIGNAL_EXIT_CODES
    return 2 if has_crashed else 1


def is_stopped_by_peer(node: NodeView) -> bool:
    return node.outcome == "stopped" and node.message == PEER


def node_orders(attempt: AttemptView, key: AttemptKey) -> list[dict[str, str]]:
    """Return the order to stop because another node has failed; empty otherwise."""
    if not attempt.nodes or attempt.nodes[key.node].has_ended or not attempt.has_failed_node:
        return []
    return [{"kind": "stop", "reason": PEER}]
