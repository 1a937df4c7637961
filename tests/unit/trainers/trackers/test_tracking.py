"""Trackers hear what anygpu hears, go on with the same run, and can neither hold up nor stop a training."""

import json
import struct
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from tests.unit.trainers.line import Line

from anygpu.trainers import BadConfig, LocalContext, get_trainer, make_config, trackers
from anygpu.trainers.contract import CheckpointTimer
from anygpu.trainers.trackers.tensorboard import TensorBoard, crc32c
from anygpu.trainers.trackers.tracking import TrackedPoint, TrackedRun, TrackerSender, TrackingContext

LINE = f"{Path(__file__).parents[1] / 'line.py'}:Line"


class Remembering:
    """A tracker that may refuse its first calls, or all of them."""

    name = "mlflow"

    def __init__(self, failures: int = 0) -> None:
        self.failures = failures
        self.calls: list[str] = []
        self.points: list[tuple[int, dict[str, float]]] = []

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.failures:
            self.failures -= 1
            raise ConnectionError("nobody answers")

    def start(self) -> None:
        self._call("start")

    def log(self, points: Sequence[TrackedPoint]) -> None:
        self._call("log")
        self.points += [(point.step, dict(point.metrics)) for point in points]

    def end(self, status: str) -> None:
        self._call(f"end {status}")

    def files(self) -> Sequence[Path]:
        return ()


def line(
    output: Path, tracker: Remembering, *, patience_s: float = 20.0, resume: bool = False, epochs: int = 3
) -> Line:
    sender = TrackerSender(tracker, every_s=0.001, patience_s=patience_s)
    context = TrackingContext(LocalContext(output, bar=False, resume=resume), [sender])
    config = make_config(Line.name, Line.accepts, {"epochs": epochs})
    return Line(config, dataset_path=None, output_dir=output, context=context)


def test_every_number_is_told_in_order_and_so_is_the_end(tmp_path: Path) -> None:
    tracker = Remembering()
    result = line(tmp_path, tracker).train()
    steps = [step for step, metrics in tracker.points if "epoch" not in metrics]
    assert steps == list(range(1, 61))
    ends = [metrics for _, metrics in tracker.points if "epoch" in metrics]
    assert [each["epoch"] for each in ends] == [1.0, 2.0, 3.0]
    assert ends[-1]["loss"] == result.history[-1]["loss"]
    assert (tracker.calls[0], tracker.calls[-1]) == ("start", "end finished")


def test_a_tracker_that_comes_late_gets_everything(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tracker = Remembering(failures=3)
    line(tmp_path, tracker).train()
    assert [step for step, metrics in tracker.points if "epoch" not in metrics] == list(range(1, 61))
    assert capsys.readouterr().err == "track.mlflow: ConnectionError: nobody answers (training goes on)\n"


def test_a_tracker_that_always_fails_is_complained_of_once_and_stops_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tracker = Remembering(failures=10**9)
    assert line(tmp_path, tracker).train().epochs == 3
    assert capsys.readouterr().err.count("track.mlflow") == 1
    assert tracker.points == []


def test_a_tracker_that_never_answers_is_not_waited_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    class Hanging(Remembering):
        def start(self) -> None:
            release.wait(30)

    release = threading.Event()
    result = line(tmp_path, Hanging(), patience_s=0.05).train()
    release.set()
    assert result.epochs == 3
    assert "the tracker does not answer" in capsys.readouterr().err


def test_a_training_that_fails_is_told_as_failed(tmp_path: Path) -> None:
    tracker = Remembering()
    trainer = line(tmp_path, tracker)
    trainer.validate = None  # type: ignore[assignment,method-assign]
    with pytest.raises(TypeError):
        trainer.train()
    assert tracker.calls[-1] == "end failed"


class Killed(BaseException):
    """As SIGKILL."""


def test_what_was_not_told_before_a_kill_is_told_after_it(tmp_path: Path) -> None:
    deaf, hearing = Remembering(failures=10**9), Remembering()
    trainer = line(tmp_path, deaf)
    trainer.validate = lambda epoch: {"val_loss": 1.0} if epoch == 0 else _raise(Killed)  # type: ignore[method-assign]
    trainer._timer = CheckpointTimer(0)
    with pytest.raises(Killed):
        trainer.train()
    line(tmp_path, hearing, resume=True).train()
    told = [step for step, metrics in hearing.points if "epoch" not in metrics]
    assert told == list(range(1, 61))
    assert [step for step, metrics in hearing.points if "epoch" in metrics] == [20, 40, 60]


def _raise(kind: type[BaseException]) -> Any:
    raise kind


class KilledAtLine:
    """Ends a training at the n-th line of our code after it saved at a step; not later than it saves again."""

    OURS = ("trainers/contract.py", "trainers/trackers/tracking.py")

    def __init__(self, trainer: Line, step: int, line: int) -> None:
        self._trainer, self._step, self._left = trainer, step, line
        self._save, trainer.save_checkpoint = trainer.save_checkpoint, self._saved  # type: ignore[method-assign]

    def _saved(self, directory: Path) -> None:
        self._save(directory)
        sys.settrace(None)
        if self._trainer.progress.step == self._step:
            sys._getframe(1).f_trace = self._line
            sys.settrace(self._line)

    def _line(self, frame: FrameType, event: str, _: object) -> Any:
        if event == "line" and frame.f_code.co_filename.endswith(self.OURS):
            self._left -= 1
            if self._left < 0:
                sys.settrace(None)
                raise Killed
        return self._line


@pytest.mark.parametrize("interrupted", [False, True], ids=["whole", "between-renames"])
def test_killed_at_any_line_of_keeping_a_checkpoint_no_step_is_lost_or_told_twice(
    tmp_path: Path, interrupted: bool
) -> None:
    kills = 0
    for number in range(1000):
        output, deaf, hearing = tmp_path / str(number), Remembering(failures=10**9), Remembering()
        with pytest.raises(Killed):
            killed(line(output, deaf, epochs=1), step=7, line=0)
        if interrupted:
            (output / "checkpoints" / "last").rename(output / "checkpoints" / "previous")
        try:
            killed(line(output, deaf, resume=True, epochs=1), step=9, line=number)
        except Killed:
            kills += 1
        else:
            break
        result = line(output, hearing, resume=True, epochs=1).train()
        assert result.timing.steps == 20
        told = [step for step, metrics in hearing.points if "epoch" not in metrics]
        assert told == list(range(1, 21)), f"killed at line {number}"
    assert kills > 20


def killed(trainer: Line, *, step: int, line: int) -> None:
    trainer._timer = CheckpointTimer(0)
    KilledAtLine(trainer, step, line)
    try:
        trainer.train()
    finally:
        sys.settrace(None)


# -- TensorBoard ------------------------------------------------------------------------------------------------


def records(path: Path) -> Iterator[bytes]:
    """The records of an event file, their lengths checked."""
    content = path.read_bytes()
    while content:
        (size,) = struct.unpack("<Q", content[:8])
        yield content[12 : 12 + size]
        content = content[16 + size :]


def test_the_checksum_is_castagnolis() -> None:
    assert (crc32c(b"123456789"), crc32c(b"\x00" * 32)) == (0xE3069283, 0x8A9136AA)


def test_event_files_hold_every_number(tmp_path: Path) -> None:
    result = get_trainer(LINE, output_dir=tmp_path, epochs=2, track={"tensorboard": True}).train()
    (file,) = (tmp_path / "tensorboard").iterdir()
    version, session, *events = records(file)
    assert b"brain.Event:2" in version
    assert session.endswith(b"\x3a\x02\x08\x01")
    assert len(events) == result.timing.steps + result.epochs
    assert b"val_loss" in events[-1]
    assert struct.pack("<f", result.history[-1]["loss"]) in events[-1]


def test_numbers_of_any_size_can_be_written(tmp_path: Path) -> None:
    run = TrackedRun(key="k", name="n", trainer="t", settings={}, tags=(), output=tmp_path)
    tracker = TensorBoard("", run)
    tracker.start()
    tracker.log([TrackedPoint({"a": 1e300, "b": -1e300, "c": float("nan"), "d": float("-inf")}, 2**40)])
    tracker.end("finished")
    *_, event = records(tracker.files()[0])
    assert event.count(struct.pack("<f", float("-inf"))) == 2


# -- what is asked for --------------------------------------------------------------------------------------------


def test_a_jobs_trackers_are_those_of_its_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    places = {"tensorboard": str(tmp_path / "here"), "mlflow": False, "tags": ["a"]}
    monkeypatch.setenv(trackers.ENVIRONMENT, json.dumps(places))
    get_trainer(LINE, output_dir=tmp_path / "out", epochs=1).train()
    assert len([*(tmp_path / "here").iterdir()]) == 1


def test_an_unknown_tracker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="no tracker 'comet'; there are mlflow, wandb, tensorboard"):
        get_trainer(LINE, output_dir=tmp_path, track={"comet": True})


def test_a_tracker_that_is_not_installed_is_said_and_training_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    result = get_trainer(LINE, output_dir=tmp_path, epochs=1, track={"wandb": "project"}).train()
    assert result.epochs == 1
    assert "wandb is not installed: pip install 'anygpu[wandb]'" in capsys.readouterr().err


def key(output: Path, *, resume: bool = False) -> Any:
    context = LocalContext(output, resume=resume, bar=False)
    return trackers._key(output, resumed=context.restore() is not None)


def test_a_continuation_has_the_key_of_what_it_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = key(tmp_path)
    (tmp_path / "checkpoints" / "last").mkdir(parents=True)
    assert key(tmp_path, resume=True) == first
    assert key(tmp_path) != first
    monkeypatch.setenv("ANYGPU_JOB_ID", "0192-job")
    assert key(tmp_path) == "0192-job"
