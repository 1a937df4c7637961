"""Conclude the state of an attempt from what the broker contains. Pure functions."""

from anygpu.backends.celery.broker_client import BrokerState
from anygpu.backends.celery.messages import EndedAttempt, ReportedAttempt, WorkerReport
from anygpu.backends.contract import MachineState, Observation
from anygpu.events.facts import Blame, Failure
from anygpu.events.offers import Handle

TAKE_LIMIT_S = 60.0  # a worker that has taken a message reports the attempt within this time
RESTART_LIMIT_S = 20.0  # a restarted worker has taken the messages in its queue after this time


def observe(state: BrokerState, handle: Handle, owner: str) -> Observation:
    """Return the state of an attempt.

    `gone` needs evidence: a live worker says that the attempt has ended, or a worker that must know the attempt does
    not list it. If no worker can tell, the attempt is `absent`.
    """
    for report in state.reports.values():
        for attempt in report.attempts:
            if (attempt.name, attempt.owner) == (handle.name, owner):
                return _observe_listed(report, attempt)
    for report in (*state.reports.values(), *state.stopped.values()):
        for ended in report.ended:
            if (ended.name, ended.owner) == (handle.name, owner):
                return _observe_ended(report, ended)
    worker = handle.native.get("worker")
    queued = [each.worker for each in state.queued(handle.name, owner)]
    if any(each in state.reports for each in queued):
        return Observation(state=MachineState.PENDING, detail=f"waits in the queue of {queued[0]}")
    if not isinstance(worker, str):
        return Observation(state=MachineState.ABSENT, detail="no worker reports the attempt")
    return _observe_unlisted(state, handle, worker)


def _observe_listed(report: WorkerReport, attempt: ReportedAttempt) -> Observation:
    if attempt.state == "starting":
        return Observation(state=MachineState.PENDING, detail=f"{report.name} starts the agent")
    if attempt.state == "exited":
        return Observation(
            state=MachineState.EXITED,
            detail=f"the agent on {report.name} died; processes of the job still run",
        )
    return Observation(state=MachineState.RUNNING, detail=f"the agent runs on {report.name}")


def _observe_ended(report: WorkerReport, ended: EndedAttempt) -> Observation:
    failure = Failure(code=ended.refusal, message=ended.detail, blame=Blame.LAUNCH) if ended.refusal else None
    return Observation(
        state=MachineState.GONE,
        detail=ended.detail or f"the agent on {report.name} has ended",
        failure=failure,
    )


def _observe_unlisted(state: BrokerState, handle: Handle, worker: str) -> Observation:
    """Conclude from the worker to which the message was sent, and which does not list the attempt."""
    report = state.reports.get(worker)
    if worker in state.stopped:
        return Observation(
            state=MachineState.GONE, detail=f"the worker {worker} was stopped; nothing runs there"
        )
    if report is None:
        silence_s = state.silence_s(worker)
        since = (
            "is not known to the broker" if silence_s is None else f"has sent nothing for {silence_s:.0f} s"
        )
        return Observation(state=MachineState.ABSENT, detail=f"the worker {worker} {since}")
    waits_s = (state.now_ms - _sent_at_ms(handle)) / 1000
    if report.instance == handle.native.get("instance"):
        if waits_s < TAKE_LIMIT_S:
            return Observation(state=MachineState.PENDING, detail=f"{worker} takes the message")
        text = f"the worker {worker} runs, but neither it nor its queue has the attempt"
        return Observation(state=MachineState.GONE, detail=f"{text}; the broker has lost the message")
    if state.now_ms - report.started_at_ms < RESTART_LIMIT_S * 1000:
        return Observation(state=MachineState.PENDING, detail=f"{worker} was restarted and reads its queue")
    return Observation(
        state=MachineState.GONE, detail=f"the worker {worker} was restarted and does not run the attempt"
    )


def _sent_at_ms(handle: Handle) -> int:
    sent = handle.native.get("sent_at_ms")
    return sent if isinstance(sent, int) else 0
