"""The loop under every trainer, driven by the smallest one: exact resume from every step, best, patience, stopping."""

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.unit.trainers.line import Line

from anygpu.trainers import At, BadConfig, LocalContext, TrainingResult, get_trainer, make_config
from anygpu.trainers.context import JobContext
from anygpu.trainers.contract import WeightsWriter

EPOCHS, STEPS = 3, 60


class Killed(BaseException):
    """As SIGKILL: nothing of the training runs after it."""


class Killer(LocalContext):
    """Kills at the n-th call of any kind, and remembers what was told before."""

    def __init__(
        self, output: Path, *, calls: int | None = None, resume: bool = False, stop_at: int = -1
    ) -> None:
        super().__init__(output, resume=resume, bar=False)
        self.calls, self.stop_at, self.step = calls, stop_at, 0
        self.reports: list[tuple[int, dict[str, float]]] = []

    def _call(self) -> None:
        if self.calls is not None:
            self.calls -= 1
            if self.calls < 0:
                raise Killed

    def report(self, metrics: Mapping[str, float], at: At) -> None:
        self._call()
        self.step = at.step
        self.reports.append((at.step, dict(metrics)))

    def checkpoint(self, path: Path, *, step: int, wait: bool = False) -> None:
        self._call()

    def should_stop(self) -> bool:
        self._call()
        return self.step == self.stop_at


def line(output: Path, context: LocalContext, **settings: Any) -> Line:
    config = make_config(Line.name, Line.accepts, {"epochs": EPOCHS, "checkpoint_every_s": 0, **settings})
    return Line(config, dataset_path=None, output_dir=output, context=context)


def comparable(result: TrainingResult) -> tuple[Any, ...]:
    assert result.last is not None
    assert result.best is not None
    weights = [json.loads(path.read_text()) for path in (result.last, result.best)]
    return result.samples_sha256, result.history, result.metrics, result.timing.steps, weights


def test_a_training_killed_anywhere_ends_bit_for_bit_where_an_uninterrupted_one_ends(tmp_path: Path) -> None:
    whole = comparable(line(tmp_path / "whole", Killer(tmp_path / "whole")).train())
    for calls in range(0, 190, 7):
        output = tmp_path / str(calls)
        with pytest.raises(Killed):
            line(output, Killer(output, calls=calls)).train()
        resumed = line(output, Killer(output, resume=True)).train()
        assert comparable(resumed) == whole, calls
        shutil.rmtree(output)


class Holding(Line):
    """Keeps its best weights in memory until the next checkpoint."""

    def hold_weights(self) -> WeightsWriter:
        held = [self.slope, self.offset]

        def write(directory: Path, stem: str) -> Path:
            (directory / f"{stem}.json").write_text(json.dumps(held))
            return directory / f"{stem}.json"

        return write


def holding(output: Path, context: LocalContext) -> Holding:
    config = make_config(Line.name, Line.accepts, {"epochs": EPOCHS, "checkpoint_every_s": 0.002})
    return Holding(config, dataset_path=None, output_dir=output, context=context)


def test_best_weights_held_in_memory_are_in_every_checkpoint_that_counts_on_them(tmp_path: Path) -> None:
    whole = comparable(line(tmp_path / "whole", Killer(tmp_path / "whole")).train())
    for calls in range(5, 130, 9):
        output = tmp_path / str(calls)
        with pytest.raises(Killed):
            holding(output, Killer(output, calls=calls)).train()
        assert comparable(holding(output, Killer(output, resume=True)).train()) == whole, calls
        shutil.rmtree(output)


def test_a_training_killed_again_and_again_ends_all_the_same(tmp_path: Path) -> None:
    whole = comparable(line(tmp_path / "whole", Killer(tmp_path / "whole")).train())
    output = tmp_path / "out"
    for _ in range(40):
        try:
            result = line(output, Killer(output, calls=11, resume=True)).train()
            break
        except Killed:
            continue
    assert comparable(result) == whole


def test_a_checkpoint_that_was_being_replaced_is_found(tmp_path: Path) -> None:
    with pytest.raises(Killed):
        line(tmp_path, Killer(tmp_path, calls=100)).train()
    checkpoints = tmp_path / "checkpoints"
    (checkpoints / "last").rename(checkpoints / "previous")  # killed between two renames
    (checkpoints / "draft").mkdir()
    context = Killer(tmp_path, resume=True)
    line(tmp_path, context).train()
    assert context.reports[0][0] > 1


def test_a_stop_is_saved_and_told(tmp_path: Path) -> None:
    result = line(tmp_path, Killer(tmp_path, stop_at=17), checkpoint_every_s=1000).train()
    assert (result.stopped, result.timing.steps, result.card) == (True, 17, None)
    context = Killer(tmp_path, resume=True)
    assert line(tmp_path, context).train().timing.steps == STEPS
    assert context.reports[0][0] == 18


def test_training_ends_early_when_nothing_becomes_better(tmp_path: Path) -> None:
    trainer = line(tmp_path, Killer(tmp_path), epochs=50, patience=2)
    # The loss falls, so the first epoch stays the best.
    trainer.goal = ("val_loss", "max")  # type: ignore[misc]
    result = trainer.train()
    assert (result.epochs, result.metrics) == (3, result.history[0])


def test_the_best_epoch_is_exported_and_the_card_says_what_was_done(tmp_path: Path) -> None:
    result = line(tmp_path, Killer(tmp_path)).train()
    assert result.history[-1]["loss"] < 0.5 * result.history[0]["loss"]
    exported = json.loads(result.exports[0].path.read_text())
    assert result.best is not None
    assert exported == json.loads(result.best.read_text())
    card = (tmp_path / "model-card.md").read_text()
    assert all(part in card for part in ("# line", "0" * 64, "| loss | ", "| epochs | `3` |", "line.json"))


def test_an_unknown_setting_names_the_nearest_and_every_mistake_is_said(tmp_path: Path) -> None:
    wrong = {"epoch": 3, "momentun": 1, "batch_size": 0, "amp": "perhaps"}
    with pytest.raises(BadConfig) as caught:
        make_config(Line.name, Line.accepts, wrong)
    said = str(caught.value)
    assert "did you mean 'epochs'?" in said
    assert "did you mean 'momentum'?" in said
    assert "batch_size: 0 is not a whole number from 1" in said
    assert "amp: 'perhaps' is not true or false" in said


def test_a_trainer_in_a_file_is_found_by_its_name(tmp_path: Path) -> None:
    file = Path(__file__).with_name("line.py")
    result = get_trainer(f"{file}:Line", output_dir=tmp_path, epochs=2, lr=0.5).train()
    assert result.epochs == 2


def test_in_a_job_each_epoch_is_a_line_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    around = JobContext()
    around.report({"loss": 2.0}, At(9, steps=30))
    around.report({f"m{n}": n / 3 for n in range(9)}, At(10, epoch=1, epochs=3))
    assert (
        capsys.readouterr().err
        == "after 1 of 3 epochs  m0 0  m1 0.3333  m2 0.6667  m3 1  m4 1.333  m5 1.667\n"
    )
