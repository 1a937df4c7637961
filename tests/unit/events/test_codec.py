"""Events and views are the same after they were stored, and journals written by earlier versions still fold."""

import json
from pathlib import Path

import pytest
from tests.unit.events.histories import (
    BETTER,
    GUESS,
    LOST,
    RECOVERY,
    SAVED,
    SUBMITTED,
    USAGE,
    after,
    ended,
    started,
)

from anygpu.errors import Internal
from anygpu.events.codec import decode, decode_or_damaged, decode_view, encode, encode_view
from anygpu.events.facts import (
    ArtifactRef,
)
from anygpu.events.fold import Recorded, fold
from anygpu.events.types import (
    EVENTS,
    ArtifactSaved,
    AttemptLost,
    AttemptQueued,
    AttemptReleased,
    AttemptStranded,
    BetterPlaceFound,
    CancelRequested,
    CheckpointRejected,
    CheckpointSaved,
    DamagedEvent,
    Event,
    HoldEnded,
    HoldStarted,
    JobCancelled,
    JobCompleted,
    JobDeleted,
    JobEdited,
    JobFailed,
    JobPlanned,
    JobWaited,
    MachineStarted,
    MeterDiffered,
    MigrateRequested,
    NodeClaimed,
    NodeEnded,
    NodeReady,
    OrphanEnded,
    StartRequested,
    StopRequested,
    TrainingRestarted,
    TrainingResumed,
)
from anygpu.events.view import JobView

CORPUS = sorted(Path(__file__).with_name("corpus").glob("*.jsonl"))


def views(path: Path) -> dict[str, JobView]:
    known: dict[str, JobView] = {}
    for line in path.read_text().splitlines():
        row = json.loads(line)
        event = decode(row["type"], row["version"], json.dumps(row["data"]))
        recorded = Recorded(
            organisation="local",
            project="default",
            position=row["position"],
            job_id=row["job_id"],
            at_ms=row["at_ms"],
            event=event,
        )
        view = fold([recorded], known.get(row["job_id"]))
        assert view is not None
        known[row["job_id"]] = view
    return known


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_an_old_journal_folds_to_what_it_said_then(path: Path) -> None:
    expected = json.loads(path.with_suffix(".expected.json").read_text())
    found = {
        job_id: {"status": v.status, "attempts": len(v.attempts), "work_lost_s": v.work_lost_s}
        for job_id, v in views(path).items()
    }
    assert found == expected


def test_the_corpus_is_not_empty() -> None:
    assert CORPUS


def test_views_of_old_journals_survive_their_cache() -> None:
    for path in CORPUS:
        for view in views(path).values():
            assert decode_view(encode_view(view)) == view


def test_an_event_of_a_newer_version_says_that_anygpu_must_be_updated() -> None:
    for kind, version in (("Unheard", 1), ("JobSubmitted", 99)):
        with pytest.raises(Internal, match="update anygpu"):
            decode(kind, version, "{}")


@pytest.mark.parametrize("data", ["{", "[]", "{}", '{"attempt": "one"}', "\udcff"])
def test_damaged_data_is_a_damaged_event_with_the_reason(data: str) -> None:
    event = decode_or_damaged("AttemptReleased", 1, data)
    assert isinstance(event, DamagedEvent)
    assert event.kind == "AttemptReleased"
    assert event.reason


EXAMPLES: tuple[Event, ...] = (
    SUBMITTED,
    JobPlanned(plan="k", prediction=GUESS),
    BetterPlaceFound(attempt=1, better=BETTER),
    JobWaited(reason="full"),
    *started(1),
    TrainingResumed(attempt=1, checkpoint_step=4, first_step=5),
    TrainingRestarted(attempt=1, checkpoint_step=4, first_step=1, work_lost_s=3, work_lost_microusd=2),
    CheckpointSaved(attempt=1, checkpoint=SAVED),
    CheckpointRejected(attempt=1, checkpoint_id="c1", reason="torn"),
    ArtifactSaved(attempt=1, artifact=ArtifactRef(name="a", attempt=1, key="k", size=1, sha256="s")),
    StopRequested(attempt=1, reason="preempt", message="makes room", makes_room_for="job-2"),
    CancelRequested(person="me"),
    ended(1),
    AttemptLost(attempt=1, evidence="gone", failure=LOST),
    MachineStarted(attempt=1, started_at_ms=7, price_microusd_per_hour=8),
    MigrateRequested(to="cloud", person="me"),
    StartRequested(person="me"),
    NodeClaimed(attempt=1, node=1, claimant="b", host={"hostname": "two"}),
    NodeReady(attempt=1, node=1, address="10.0.0.2", port=40000, restored=True),
    NodeEnded(attempt=1, node=1, outcome="exited", exit_code=0, step=3),
    JobEdited(name="new", tags=("a",), notes="b", person="me"),
    HoldStarted(attempt=1, until_ms=9),
    HoldEnded(attempt=1, reason="release", person="me"),
    AttemptQueued(attempt=1, reason="all nodes are busy"),
    AttemptStranded(attempt=1, reason="not configured"),
    AttemptReleased(attempt=1, evidence="gone", usage=USAGE),
    OrphanEnded(attempt=1, usage=USAGE),
    MeterDiffered(attempt=1, ours_microusd=1, theirs_microusd=2),
    RECOVERY,
    JobCompleted(),
    JobFailed(failure=LOST),
    JobCancelled(),
    JobDeleted(name="n", status="completed", cost_microusd=3, person="me"),
)


@pytest.mark.parametrize("event", EXAMPLES, ids=lambda event: type(event).__name__)
def test_every_event_survives_its_journal(event: Event) -> None:
    assert decode(type(event).__name__, event.VERSION, encode(event)) == event


def test_there_is_an_example_of_every_event() -> None:
    assert {type(event) for event in EXAMPLES} == set(EVENTS)


def test_a_view_survives_its_cache() -> None:
    view = after(*started(1), CheckpointSaved(attempt=1, checkpoint=SAVED), ended(1))
    assert decode_view(encode_view(view)) == view
