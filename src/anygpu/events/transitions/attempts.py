"""Events about an attempt and its nodes, from its launch until its machines are released."""

from dataclasses import replace

from anygpu.events.facts import Phase, Status
from anygpu.events.transitions.rules import (
    apply,
    find_attempt,
    require,
    require_live,
    require_node,
    require_unknown_resume,
    with_attempt,
    with_node,
)
from anygpu.events.types import (
    AttemptClaimed,
    AttemptEnded,
    AttemptLaunched,
    AttemptLaunching,
    AttemptLost,
    AttemptQueued,
    AttemptReleased,
    AttemptStranded,
    HoldEnded,
    HoldStarted,
    MachineStarted,
    MeterDiffered,
    NodeClaimed,
    NodeEnded,
    NodeReady,
    OrphanEnded,
    StopRequested,
    TrainingRestarted,
    TrainingResumed,
    TrainingStarted,
)
from anygpu.events.view import AttemptView, JobView, NodeView


@apply.register
def _(event: AttemptLaunching, view: JobView, at_ms: int) -> JobView:
    require(view.live_attempt is None, event, "another attempt is live")
    require(
        event.attempt == len(view.attempts) + 1,
        event,
        "its attempt number does not follow that of the newest attempt",
    )
    require(not view.cancel_requested, event, "the job is being cancelled")
    attempt = AttemptView(
        number=event.attempt,
        name=event.name,
        offer=event.offer,
        ticket_sha256=event.ticket_sha256,
        launching_at_ms=at_ms,
        resume=event.resume,
        on_demand_microusd_per_hour=event.on_demand_microusd_per_hour,
        nodes=(NodeView(),) * event.nodes if event.nodes > 1 else (),
    )
    return replace(
        view,
        attempts=(*view.attempts, attempt),
        status=Status.RUNNING,
        phase=Phase.PROVISIONING,
        reason="",
        recovering_since_ms=None,
        migrate_to="",
        start_requested_at_ms=None,
        better=None,
    )


@apply.register
def _(event: AttemptLaunched, view: JobView, at_ms: int) -> JobView:
    # A fast agent may have claimed the attempt, or even ended it, before the launch call returned.
    attempt = find_attempt(view, event.attempt)
    require(
        attempt is not None and not attempt.is_released,
        event,
        "the attempt does not exist or is already released",
    )
    require(attempt is not None and attempt.handle is None, event, "already launched")
    return with_attempt(view, event.attempt, lambda a: replace(a, handle=event.handle, launched_at_ms=at_ms))


@apply.register
def _(event: MachineStarted, view: JobView, at_ms: int) -> JobView:
    attempt = find_attempt(view, event.attempt)
    require(attempt is not None and not attempt.is_released, event, "no such attempt")
    require(attempt is not None and attempt.started_at_ms is None, event, "already started")
    price = event.price_microusd_per_hour
    return with_attempt(
        view,
        event.attempt,
        lambda a: replace(a, started_at_ms=event.started_at_ms, price_microusd_per_hour=price),
    )


@apply.register
def _(event: AttemptClaimed, view: JobView, at_ms: int) -> JobView:
    attempt = require_live(event, event.attempt, view)
    require(attempt.claimant is None, event, "already claimed")
    view = replace(_without_queue_reason(view, attempt), phase=Phase.PREPARING)
    view = with_attempt(
        view, event.attempt, lambda a: replace(a, claimant=event.claimant, claimed_at_ms=at_ms)
    )
    if not attempt.nodes:
        return view
    return with_node(view, event.attempt, 0, claimant=event.claimant, host=event.host.get("hostname", ""))


@apply.register
def _(event: NodeClaimed, view: JobView, at_ms: int) -> JobView:
    node = require_node(event, event.attempt, event.node, view)
    require(event.node > 0, event, "node 0 claims the attempt")
    require(node.claimant is None, event, "already claimed")
    return with_node(
        view, event.attempt, event.node, claimant=event.claimant, host=event.host.get("hostname", "")
    )


@apply.register
def _(event: NodeReady, view: JobView, at_ms: int) -> JobView:
    node = require_node(event, event.attempt, event.node, view)
    require(node.claimant is not None, event, "no agent has claimed the node")
    require(node.ready_at_ms is None and not node.has_ended, event, "the node is already ready or has ended")
    return with_node(
        view,
        event.attempt,
        event.node,
        ready_at_ms=at_ms,
        address=event.address,
        port=event.port,
        restored=event.restored,
    )


@apply.register
def _(event: NodeEnded, view: JobView, at_ms: int) -> JobView:
    node = require_node(event, event.attempt, event.node, view)
    require(node.claimant is not None, event, "no agent has claimed the node")
    require(not node.has_ended, event, "the node has already ended")
    return with_node(
        view,
        event.attempt,
        event.node,
        ended_at_ms=at_ms,
        outcome=event.outcome,
        exit_code=event.exit_code,
        signal=event.signal,
        message=event.message,
        step=event.step,
        memory=event.memory,
    )


@apply.register
def _(event: TrainingStarted, view: JobView, at_ms: int) -> JobView:
    attempt = require_live(event, event.attempt, view)
    require(attempt.claimant is not None, event, "no agent has claimed the attempt")
    require(attempt.are_nodes_ready, event, "not all nodes of the attempt are ready")
    view = replace(view, phase=Phase.TRAINING)
    return with_attempt(view, event.attempt, lambda a: replace(a, training_at_ms=at_ms))


@apply.register
def _(event: TrainingResumed, view: JobView, at_ms: int) -> JobView:
    require_unknown_resume(event, event.attempt, view)
    return with_attempt(view, event.attempt, lambda a: replace(a, resumed=True, first_step=event.first_step))


@apply.register
def _(event: TrainingRestarted, view: JobView, at_ms: int) -> JobView:
    require_unknown_resume(event, event.attempt, view)
    view = replace(
        view,
        work_lost_s=view.work_lost_s + event.work_lost_s,
        work_lost_microusd=view.work_lost_microusd + event.work_lost_microusd,
    )
    return with_attempt(
        view,
        event.attempt,
        lambda a: replace(
            a,
            resumed=False,
            first_step=event.first_step,
            restart_lost_s=event.work_lost_s,
            restart_lost_microusd=event.work_lost_microusd,
        ),
    )


@apply.register
def _(event: StopRequested, view: JobView, at_ms: int) -> JobView:
    require_live(event, event.attempt, view)
    view = replace(view, phase=Phase.CHECKPOINTING)
    return with_attempt(
        view,
        event.attempt,
        lambda a: replace(
            a, stop_reason=event.reason, stop_message=event.message, makes_room_for=event.makes_room_for
        ),
    )


@apply.register
def _(event: AttemptEnded, view: JobView, at_ms: int) -> JobView:
    require_live(event, event.attempt, view)
    view = replace(view, phase=Phase.FINISHING)
    return with_attempt(
        view,
        event.attempt,
        lambda a: replace(
            a,
            ended_at_ms=at_ms,
            outcome=event.outcome,
            exit_code=event.exit_code,
            signal=event.signal,
            message=event.message,
            step=event.step,
            marks=event.marks,
            memory=event.memory,
        ),
    )


@apply.register
def _(event: AttemptLost, view: JobView, at_ms: int) -> JobView:
    attempt = require_live(event, event.attempt, view)
    view = replace(_without_queue_reason(view, attempt), phase=Phase.FINISHING)
    return with_attempt(
        view,
        event.attempt,
        lambda a: replace(
            a,
            ended_at_ms=at_ms,
            outcome="lost",
            lost=event.failure,
            message=event.evidence,
            marks=event.marks,
        ),
    )


@apply.register
def _(event: HoldStarted, view: JobView, at_ms: int) -> JobView:
    attempt = find_attempt(view, event.attempt)
    require(
        attempt is not None and attempt.is_over and not attempt.is_released,
        event,
        "the attempt has not ended or is already released",
    )
    require(
        attempt is not None and attempt.held_until_ms is None,
        event,
        "the machine of the attempt was already held",
    )
    view = replace(view, phase=Phase.HELD)
    return with_attempt(view, event.attempt, lambda a: replace(a, held_until_ms=event.until_ms))


@apply.register
def _(event: HoldEnded, view: JobView, at_ms: int) -> JobView:
    attempt = find_attempt(view, event.attempt)
    require(attempt is not None and attempt.is_held, event, "the machine of the attempt is not held")
    view = replace(view, phase=Phase.FINISHING)
    return with_attempt(view, event.attempt, lambda a: replace(a, hold_ended=True))


@apply.register
def _(event: AttemptQueued, view: JobView, at_ms: int) -> JobView:
    attempt = require_live(event, event.attempt, view)
    require(attempt.claimant is None, event, "already claimed")
    return with_attempt(
        replace(view, reason=event.reason),
        event.attempt,
        lambda a: replace(a, queue_reason=event.reason, queue_reason_at_ms=at_ms),
    )


def _without_queue_reason(view: JobView, attempt: AttemptView) -> JobView:
    """Return the job without the reason for which its attempt waited in the queue of its engine."""
    return replace(view, reason="") if view.reason == attempt.queue_reason else view


@apply.register
def _(event: AttemptStranded, view: JobView, at_ms: int) -> JobView:
    attempt = find_attempt(view, event.attempt)
    require(attempt is not None and not attempt.is_released, event, "the attempt is already released")
    view = replace(view, reason=event.reason)
    return with_attempt(view, event.attempt, lambda a: replace(a, stranded=event.reason))


@apply.register
def _(event: AttemptReleased, view: JobView, at_ms: int) -> JobView:
    attempt = find_attempt(view, event.attempt)
    require(attempt is not None and attempt.is_over, event, "the attempt is not over")
    require(attempt is not None and not attempt.is_released, event, "already released")
    cost = event.usage.cost_microusd if event.usage else 0
    view = replace(view, cost_microusd=view.cost_microusd + cost)
    return with_attempt(view, event.attempt, lambda a: replace(a, released_at_ms=at_ms, usage=event.usage))


@apply.register
def _(event: OrphanEnded, view: JobView, at_ms: int) -> JobView:
    attempt = find_attempt(view, event.attempt)
    require(attempt is not None and attempt.is_released, event, "the attempt is not released")
    known = attempt is not None and event.usage in attempt.orphans
    require(not known, event, "the cost of this machine is already in the ledger")
    view = replace(view, cost_microusd=view.cost_microusd + event.usage.cost_microusd)
    return with_attempt(view, event.attempt, lambda a: replace(a, orphans=(*a.orphans, event.usage)))


@apply.register
def _(event: MeterDiffered, view: JobView, at_ms: int) -> JobView:
    attempt = find_attempt(view, event.attempt)
    require(attempt is not None and attempt.is_released, event, "the attempt is not released")
    return with_attempt(view, event.attempt, lambda a: replace(a, metered_microusd=event.theirs_microusd))
