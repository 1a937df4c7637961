"""What became of a completed job, in figures; and the writing of it, which may be done again at any time."""

from collections.abc import Callable, Iterable, Sequence

from anygpu.control.forecasts import step_s
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
WINDOW = 1_000  # points
MAX_EVENTS = 10_000  # of one job: beyond these nobody looks for a prediction


class OutcomeRecorder:
    """Completed jobs that have no outcome yet get one. Killed anywhere, the next pass goes on."""

    def __init__(self, journal: Journal, evidence: Reports, outcomes: Outcomes, report: Report) -> None:
        self._journal, self._evidence, self._outcomes = journal, evidence, outcomes
        self._report = report

    async def run(self) -> int:
        """How many were written; as many as there may be at once means there may be more."""
        missing = await self._outcomes.jobs_without_outcome(limit=OUTCOME_BATCH)
        return sum([await self._record(job_id) for job_id in missing])

    async def _record(self, job_id: str) -> bool:
        try:
            await self._outcomes.put(await self._build(job_id))
        except Exception as error:  # noqa: BLE001  one bad job must not keep the others from theirs
            self._report(f"the outcome of job {job_id} was not written and will be tried again", error)
            return False
        return True

    async def _build(self, job_id: str) -> JobOutcome:
        view = await self._journal.view(SYSTEM, job_id)
        scope = Scope(organisation=view.organisation, project=view.project)
        events = await self._journal.events(scope, after=0, limit=MAX_EVENTS, job_id=job_id)
        last = len(view.attempts)
        row = await self._evidence.state(job_id, last)
        after = max(0, row.marks.metric_points - WINDOW)
        points, _ = await self._evidence.points(job_id, last, after=after, limit=WINDOW)
        return build_outcome(view, events, row, points)


def build_outcome(
    view: JobView, events: Iterable[Recorded], row: ReportState, points: Sequence[MetricPoint]
) -> JobOutcome:
    """`row` and `points`: of the attempt that completed it."""
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
    """What an organisation has of the same work."""

    def __init__(self, outcomes: Outcomes) -> None:
        self._outcomes = outcomes

    async def __call__(self, spec: JobSpec, organisation: str) -> list[PastRun]:
        return [
            as_past_run(kept)
            for kept in await self._outcomes.for_fingerprint(organisation, fingerprint(spec))
        ]


def as_past_run(kept: JobOutcome) -> PastRun:
    """As a prediction takes it."""
    machine = RunMachine(backend=kept.backend, gpu_kind=kept.gpu_kind, gpu_count=kept.gpu_count)
    return PastRun(
        machine=machine,
        training_s=kept.training_s,
        steps=kept.steps,
        step_s=kept.step_s,
        length=kept.length,
    )


def _own_steps(first: AttemptView, row: ReportState) -> int | None:
    """What this job did itself: what it went on from was another's."""
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
