"""The trainer contract and the loop that runs it: restore, epochs, checkpoints, best weights, exports.

A training that is killed continues from its last checkpoint. The loop stores its own position (`Progress`) next to
the state that the trainer saves, and `train_epoch` continues at `progress.step_in_epoch`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

from anygpu.trainers import model_card
from anygpu.trainers.config import Accepts, TrainingConfig, make_config
from anygpu.trainers.context import At, CheckpointExtender, Context, EndAware
from anygpu.trainers.errors import MissingExtra, Stopped
from anygpu.trainers.progress import Progress
from anygpu.trainers.result import Export, Timing, TrainingResult

SHARE = 0.01
SOONEST_S = 5.0  # with a model that is saved in no time, no more often than this
PATIENCE = (
    3.0  # where best weights alone use the share up, checkpoints still come: at a third of their usual rate
)


class CheckpointTimer:
    """Knows how long saving took and training has run. Best weights and checkpoints share what saving may cost."""

    def __init__(self, every_s: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._every_s = every_s
        self._clock = clock
        self._began = self._saved_at = clock()
        self._earlier_s = self._earlier_stood_s = 0.0  # of earlier attempts
        self._stood_s = self._cost_s = 0.0

    def is_due(self) -> bool:
        since_s = self._clock() - self._saved_at
        if self._every_s is not None:
            return since_s >= self._every_s
        affordable = self._stood_s + self._cost_s <= SHARE * (self._clock() - self._began)
        first = self._saved_at == self._began
        overdue = first or since_s >= PATIENCE * self._cost_s / SHARE
        return since_s >= SOONEST_S and (affordable or overdue)

    @contextlib.contextmanager
    def standstill(self, *, to_resume: bool = True) -> Iterator[None]:
        """Training waits meanwhile. Best weights are nothing to resume from: they cost, but put no checkpoint off."""
        began = self._clock()
        yield
        ended = self._clock()
        self._stood_s += ended - began
        if to_resume:
            self._cost_s, self._saved_at = ended - began, ended

    def spent(self) -> tuple[float, float]:
        """Seconds of training in all, and how many of them it stood still."""
        return self._earlier_s + self._clock() - self._began, self._earlier_stood_s + self._stood_s

    def continue_from(self, progress: Progress) -> None:
        self._earlier_s, self._earlier_stood_s = progress.training_s, progress.checkpoint_s


LAST, PREVIOUS = "last", "previous"
WeightsWriter = Callable[[Path, str], Path]  # directory and stem -> the file


class AnyTrainer(ABC):
    """Knows how to train one kind of model, by a loop of its own: `fit` calls `step_done` and `epoch_done`."""

    name: ClassVar[str]
    extra: ClassVar[str] = ""  # what to install: pip install 'anygpu[<extra>]'
    needs: ClassVar[tuple[str, ...]] = ()  # modules that have to be there
    licence: ClassVar[str] = "Apache-2.0"  # of the framework that trains
    accepts: ClassVar[Accepts] = Accepts()
    goal: ClassVar[tuple[str, str]] = ("loss", "min")  # which metric makes an epoch the best one

    def __init__(
        self, config: TrainingConfig, *, dataset_path: Path | None, output_dir: Path, context: Context
    ) -> None:
        self.config = config
        self.dataset_path = dataset_path
        self.output_dir = output_dir
        self.context = context
        self.progress = Progress()
        self.data_hash = ""  # set by `prepare_dataset`: what the model card says it was trained on
        self._timer = CheckpointTimer(config.checkpoint_every_s)
        self._best: Path | None = None
        self._best_unreported = False
        self._held_weights: WeightsWriter | None = (
            None  # the best weights, where they are not on the disk yet
        )

    @classmethod
    def parse_settings(cls, settings: Mapping[str, Any]) -> TrainingConfig:
        """The settings, checked. Needs no framework: a job's are checked before a machine is rented for it."""
        config = make_config(cls.name, cls.accepts, settings)
        cls.check(config)
        return config

    @classmethod
    def check(cls, config: TrainingConfig) -> None:
        """What no setting shows alone; BadConfig says all that is wrong. Most have nothing to add."""
        return

    @classmethod
    def extras(cls, config: TrainingConfig) -> tuple[str, ...]:
        """What has to be installed for these settings, by the names of anygpu's extras."""
        return (cls.extra,) if cls.extra else ()

    @classmethod
    def grows(cls, config: TrainingConfig) -> bool:
        """Whether a step works on what all before it made, and takes longer and longer. Needs no framework."""
        return False

    @classmethod
    def check_dataset(cls, config: TrainingConfig, path: Path) -> None:
        """BadDataset says what is wrong. Needs no framework: it is asked before the data is sent anywhere."""
        return

    # -- what a trainer knows ---------------------------------------------------------------------------------

    @abstractmethod
    def prepare_dataset(self) -> None:
        """Check and load the data; BadDataset says what is wrong with it."""

    @abstractmethod
    def create_model(self) -> None:
        """The model, its optimiser and whatever else has a state."""

    @abstractmethod
    def save_checkpoint(self, directory: Path) -> None:
        """Everything `load_checkpoint` needs to go on as if nothing had happened, into an empty directory."""

    @abstractmethod
    def load_checkpoint(self, directory: Path) -> None: ...

    @abstractmethod
    def save_weights(self, directory: Path, stem: str) -> Path | None:
        """The model alone, for use: `<stem>.<ending>` in `directory`, replaced whole. None: nothing to save."""

    def hold_weights(self) -> WeightsWriter | None:
        """What `save_weights` would write now, copied in memory to be written later; None: writing it is as quick."""
        return None

    @abstractmethod
    def load_weights(self, path: Path) -> None:
        """What `save_weights` wrote: the best epoch's model is exported, not the last one's."""

    @abstractmethod
    def export_model(self, format: str, directory: Path) -> Export:
        """Write the model in another format and check it against this one; BadExport when they differ."""

    # -- the loop ---------------------------------------------------------------------------------------------

    def train(self) -> TrainingResult:
        """From the last checkpoint, or from nothing, to the exported model."""
        status = "failed"
        try:
            result = self._run()
            status = "stopped" if result.stopped else "finished"
            return result
        finally:
            if isinstance(self.context, EndAware):
                self.context.end(status)

    def _run(self) -> TrainingResult:
        self.require()
        self.output_dir.mkdir(parents=True, exist_ok=True)
        try:
            self.prepare_dataset()
            self.create_model()
            self.restore()
            self.fit()
            self.checkpoint(wait=True)
        except Stopped:
            return self._result(stopped=True)
        return self._finish()

    @abstractmethod
    def fit(self) -> None:
        """Train until `progress.epoch` is what the configuration asks for, or nothing becomes better any more."""

    def step_done(self, metrics: Mapping[str, float], *, steps_per_epoch: int | None = None) -> None:
        """One step more. Saves when it is time to; raises Stopped, saved, when training shall stop."""
        progress = self.progress
        progress.step += 1
        progress.step_in_epoch += 1
        steps = steps_per_epoch * self.config.epochs if steps_per_epoch else None
        self.context.report(metrics, At(progress.step, steps=steps, epochs=self.config.epochs))
        self._save_or_stop()

    def epoch_done(self, metrics: Mapping[str, float]) -> None:
        """One epoch more, measured."""
        progress = self.progress
        progress.finish_epoch(metrics, self.goal)
        self.context.report(metrics, At(progress.step, epoch=progress.epoch, epochs=self.config.epochs))
        if progress.best_epoch == progress.epoch:
            self._keep_best()
        self._save_or_stop()

    def is_stale(self) -> bool:
        """Nothing has become better for as many epochs as the configuration has patience for."""
        patience = self.config.patience
        return patience > 0 and self.progress.epoch - self.progress.best_epoch >= patience

    def checkpoint(self, *, wait: bool = False) -> None:
        """Save now. What is being written replaces the last one only when it is whole."""
        with self._timer.standstill():
            place = self._checkpoints()
            draft = place / "draft"
            shutil.rmtree(draft, ignore_errors=True)
            draft.mkdir(parents=True)
            self.save_checkpoint(draft)
            self._write_held_weights()
            self._save_progress(draft)
            if isinstance(self.context, CheckpointExtender):
                self.context.add_to(draft)
            _replace(draft, place / LAST, place / PREVIOUS)
            self.context.checkpoint(place / LAST, step=self.progress.step, wait=wait)
            self._report_best()

    def restore(self) -> None:
        found = self.context.restore()
        if found is None:
            return
        self.progress = Progress.load(found / "progress.json")
        self._timer.continue_from(self.progress)
        self._best = self._restore_best(found)
        self.load_checkpoint(found)

    def require(self) -> None:
        """MissingExtra names what to install."""
        for module in self.needs:
            if importlib.util.find_spec(module) is None:
                raise MissingExtra(self.name, module, self.extra)

    # -- keeping ----------------------------------------------------------------------------------------------

    def _checkpoints(self) -> Path:
        return self.context.workplace(self.output_dir) / "checkpoints"

    def _save_or_stop(self) -> None:
        if self.context.should_stop():
            self.checkpoint(wait=True)
            raise Stopped
        if self._timer.is_due():
            self.checkpoint()

    def _keep_best(self) -> None:
        with self._timer.standstill(to_resume=False):
            self._held_weights = self.hold_weights()
            if self._held_weights is None:
                self._best, self._best_unreported = self.save_weights(self.output_dir, "best"), True

    def _write_held_weights(self) -> None:
        """Before a checkpoint that counts the held epoch as the best so far."""
        if self._held_weights is not None:
            self._best, self._best_unreported = self._held_weights(self.output_dir, "best"), True
            self._held_weights = None

    def _report_best(self) -> None:
        if self._best is not None and self._best_unreported:
            self.context.best(self._best)
            self._best_unreported = False

    def _save_progress(self, draft: Path) -> None:
        self.progress.training_s, self.progress.checkpoint_s = self._timer.spent()
        self.progress.save(draft / "progress.json")
        if self._best is not None:
            _copy(self._best, draft / self._best.name)

    def _restore_best(self, checkpoint: Path) -> Path | None:
        """The best weights so far, which came with the checkpoint."""
        found = next(iter(sorted(checkpoint.glob("best*"))), None)
        if found is None:
            return None
        _copy(found, self.output_dir / found.name)
        return self.output_dir / found.name

    # -- the end ----------------------------------------------------------------------------------------------

    def _finish(self) -> TrainingResult:
        last = self.save_weights(self.output_dir, "last")
        if self._best is not None:
            self.load_weights(self._best)
        exports = self.output_dir / "exports"
        exports.mkdir(exist_ok=True)
        made = tuple(self.export_model(format, exports) for format in self.config.export)
        result = self._result(last=last, exports=made)
        model_card.write(self, result, self.output_dir / "model-card.md")
        result.save(self.output_dir / "result.json")
        for path in (*(each.path for each in made), self.output_dir / "model-card.md"):
            self.context.artifact(path)
        return result

    def _result(
        self, *, last: Path | None = None, exports: tuple[Export, ...] = (), stopped: bool = False
    ) -> TrainingResult:
        progress = self.progress
        training_s, checkpoint_s = self._timer.spent()
        return TrainingResult(
            trainer=self.name,
            metrics=progress.best_metrics(),
            history=tuple(progress.history),
            best=self._best,
            last=last,
            exports=exports,
            timing=Timing(training_s=training_s, checkpoint_s=checkpoint_s, steps=progress.step),
            epochs=progress.epoch,
            stopped=stopped,
            samples_sha256=progress.samples_sha256,
            card=None if stopped else self.output_dir / "model-card.md",
        )


class Trainer(AnyTrainer):
    """Trains an epoch at a time, in our loop."""

    @abstractmethod
    def train_epoch(self, epoch: int) -> Mapping[str, float]:
        """Train from `progress.step_in_epoch` to the end of the epoch (from 0), calling `step_done` after each step.

        What it sums up on the way belongs in `progress.totals`, which comes back with a checkpoint.
        """

    @abstractmethod
    def validate(self, epoch: int) -> Mapping[str, float]: ...

    def fit(self) -> None:
        """Every epoch that is left."""
        while self.progress.epoch < self.config.epochs and not self.is_stale():
            epoch = self.progress.epoch
            self.epoch_done({**self.train_epoch(epoch), **self.validate(epoch)})


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
    else:
        shutil.copyfile(source, target)


def _replace(draft: Path, last: Path, previous: Path) -> None:
    """At every moment one of the two is whole."""
    if last.exists():  # else a kill came between the two renames, and the previous one is all there is
        shutil.rmtree(previous, ignore_errors=True)
        last.rename(previous)
    draft.rename(last)
    shutil.rmtree(previous, ignore_errors=True)
