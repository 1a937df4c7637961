"""Record the time and cost of completed jobs, as a basis for predictions.

Recording the same job twice is harmless.
"""

from collections.abc import Callable, Iterable, Sequence

from anygpu.control.accounting.forecasts import step_s
from anygpu.events.facts import FIRST_STEPS, Prediction
from anygpu.events.fold import Recorded
from anygpu.events.types import JobPlanned
from anygpu.events.view import AttemptView, JobView
from anygpu.plan.predict.history import PastRun, RunMachine, fingerprint, training_length
from anygpu.spec.jobspec import JobSpec
from anygpu.store.journal import Journal
from anygpu.store.outcomes import JobOutcome, Outcomes
from anygpu.store.reports import MetricPoint, Reports, ReportState
from anygpu.store.scope import SYSTEM, Scope

Report = Callable[[str, Exception], None]
OUTCOME_BATCH = 50
WINDOW = 1_000  # newest metric points that are read
MAX_EVENTS = 10_000  # per job; a prediction after these events is not found


class OutcomeRecorder:
    """Records the time and cost of every completed job that has no record yet, so that a crash loses none."""

    def __init__(self, journal: Journal, reports: Reports, outcomes: Outcomes, report: Report) -> None:
        self._journal, self._reports, self._outcomes = journal, reports, outcomes
        self._report = report

    async def run(self) -> int:
        """Record one batch of outcomes and return its size.

        If the batch is full, more jobs may be left; run again.
        """
        missing = await self._outcomes.jobs_without_outcome(limit=OUTCOME_BATCH)
        return sum([await self._record(job_id) for job_id in missing])

    async def _record(self, job_id: str) -> bool:
        try:
            await self._outcomes.put(await self._build(job_id))
        except Exception as error:  # noqa: BLE001  one bad job must not block the others
            self._report(f"recording the outcome of job {job_id} failed and will be tried again", error)
            return False
        return True

    async def _build(self, job_id: str) -> JobOutcome:
        view = await self._journal.view(SYSTEM, job_id)
        scope = Scope(organisation=view.organisation, project=view.project)
        events = await self._journal.events(scope, after=0, limit=MAX_EVENTS, job_id=job_id)
        last = len(view.attempts)
        row = await self._reports.state(job_id, last)
        after = max(0, row.marks.metric_points - WINDOW)
        points, _ = await self._reports.points(job_id, last, after=after, limit=WINDOW)
        return build_outcome(view, events, row, points)


def build_outcome(
    view: JobView, events: Iterable[Recorded], row: ReportState, points: Sequence[MetricPoint]
) -> JobOutcome:
    """Build the record of a completed job: time, cost, steps and machine.

    `row` and `points` are the reports and metrics of its last attempt.
    """
    first, last = view.attempts[0], view.attempts[-1]
    return JobOutcome(
        job_id=view.id,
        organisation=view.organisation,
        project=view.project,
        fingerprint=fingerprint(view.spec),
        backend=last.offer.backend,
        gpu_kind=last.offer.gpu_kind,
        gpu_count=last.offer.gpu_count,
        attempts=len(view.attempts),
        length=training_length(view.spec),
        steps=_own_steps(first, row),
        step_s=step_s(points),
        training_s=sum(_trained_s(each) for each in view.attempts),
        wall_s=max(0, (view.ended_at_ms or 0) - first.launching_at_ms) / 1000,
        cost_microusd=view.cost_microusd,
        ended_at_ms=view.ended_at_ms or 0,
        predicted=view.predicted,
        calibrated=_first_calibrated_prediction(events),
    )


class PastRuns:
    """Finds the organisation's past runs of the same work, which is recognised by a fingerprint of the spec."""

    def __init__(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes

    async def __call__(self, spec: JobSpec, organisation: str) -> list[PastRun]:
        return [
            as_past_run(kept)
            for kept in await self._outcomes.for_fingerprint(organisation, fingerprint(spec))
        ]


def as_past_run(kept: JobOutcome) -> PastRun:
    """Convert a stored outcome to the form that predictions use."""
    machine = RunMachine(backend=kept.backend, gpu_kind=kept.gpu_kind, gpu_count=kept.gpu_count)
    return PastRun(
        machine=machine,
        training_s=kept.training_s,
        steps=kept.steps,
        step_s=kept.step_s,
        length=kept.length,
    )


def _own_steps(first: AttemptView, row: ReportState) -> int | None:
    """Return the number of steps that this job ran itself, or None if unknown or zero.

    Steps before the checkpoint that the job started from do not count.
    """
    done = row.progress.get("step")
    if not isinstance(done, int) or isinstance(done, bool):
        return None
    return max(0, done - (first.resume.step if first.resume else 0)) or None


def _trained_s(attempt: AttemptView) -> float:
    if attempt.training_at_ms is None or attempt.ended_at_ms is None:
        return 0.0
    return max(0, attempt.ended_at_ms - attempt.training_at_ms) / 1000


def _first_calibrated_prediction(events: Iterable[Recorded]) -> Prediction | None:
    planned = (each.event.prediction for each in events if isinstance(each.event, JobPlanned))
    return next((each for each in planned if each is not None and each.basis == FIRST_STEPS), None)
