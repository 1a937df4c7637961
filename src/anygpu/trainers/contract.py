"""Base classes of trainers, with the training loop: restore, epochs, checkpoints, best weights, exports.

A killed training continues from its last checkpoint. The loop stores its own position (`Progress`) next to
the state that the trainer saves, and `train_epoch` continues at `progress.step_in_epoch`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from anygpu.trainers import model_card
from anygpu.trainers.checkpoint_files import copy_checkpoint, replace_checkpoint
from anygpu.trainers.config import Accepts, TrainingConfig, make_config
from anygpu.trainers.context import At, CheckpointExtender, Context, EndAware
from anygpu.trainers.errors import BadConfig, MissingExtra, Stopped
from anygpu.trainers.progress import Progress
from anygpu.trainers.ranks import SINGLE, Ranks, first_then_others, size_from_environment
from anygpu.trainers.result import Export, Timing, TrainingResult

SHARE = 0.01  # largest fraction of the training time to spend on saving
SOONEST_S = 5.0  # shortest time between two checkpoints
# If saving best weights alone takes more than SHARE, checkpoints are still written, a third as often as usual.
OVERDUE_FACTOR = 3.0


class CheckpointTimer:
    """Decides when the next checkpoint is due, from the time spent on training and on saving.

    Without `every_s`, saving may take 1 % of the training time. Best weights and checkpoints count together.
    """

    def __init__(self, every_s: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._every_s = every_s
        self._clock = clock
        self._began = self._saved_at = clock()
        self._earlier_s = self._earlier_stood_s = 0.0  # totals of earlier attempts
        self._stood_s = self._cost_s = 0.0

    def is_due(self) -> bool:
        since_s = self._clock() - self._saved_at
        if self._every_s is not None:
            return since_s >= self._every_s
        affordable = self._stood_s + self._cost_s <= SHARE * (self._clock() - self._began)
        first = self._saved_at == self._began
        overdue = first or since_s >= OVERDUE_FACTOR * self._cost_s / SHARE
        return since_s >= SOONEST_S and (affordable or overdue)

    @contextlib.contextmanager
    def standstill(self, *, to_resume: bool = True) -> Iterator[None]:
        """Context manager that measures how long training pauses while files are saved.

        `to_resume` is True if the files are a checkpoint. Then the wait for the next checkpoint starts again. It is
        False if only the best weights are saved.
        """
        began = self._clock()
        yield
        ended = self._clock()
        self._stood_s += ended - began
        if to_resume:
            self._cost_s, self._saved_at = ended - began, ended

    def spent(self) -> tuple[float, float]:
        """Return the seconds of training in all attempts, and how many of them training paused for saving."""
        return self._earlier_s + self._clock() - self._began, self._earlier_stood_s + self._stood_s

    def continue_from(self, progress: Progress) -> None:
        self._earlier_s, self._earlier_stood_s = progress.training_s, progress.checkpoint_s


LAST, PREVIOUS = "last", "previous"
CONTINUE, SAVE, STOP = range(3)  # what the ranks do after a step
WeightsWriter = Callable[[Path, str], Path]  # (directory, file stem) -> the written file


@dataclass(frozen=True, kw_only=True)
class PlannerHints:
    """Facts about a trainer that the planner uses before a machine is rented.

    The planner reads the hints of built-in trainers only, because it must not run a user's code. For every
    other trainer it assumes the default values below.
    """

    framework: str = ""  # name that `anygpu plan` shows; empty: the name of the trainer
    # Frameworks of models that use another one than `framework`.
    model_frameworks: Mapping[str, str] = field(default_factory=dict)
    needs_gpu: bool = True  # False: runs on a CPU, and batch and model size do not affect the plan
    default_model: str = ""  # model whose size is assumed if the job names none
    # Number of parameters of models that the planner's table of published models does not have.
    parameters: Mapping[str, int] = field(default_factory=dict)
    # Packages that the trainer installs and whose builds must support the GPU.
    requirements: tuple[str, ...] = ()


class AnyTrainer(ABC):
    """Base class of all trainers. A trainer whose framework has its own training loop subclasses it directly.

    Such a trainer implements `fit`, which calls `step_done` and `epoch_done`.
    """

    name: ClassVar[str]
    title: ClassVar[str] = ""  # name for people; empty: the name of the trainer
    description: ClassVar[str] = ""  # one sentence: what it trains, and on what
    extra: ClassVar[str] = ""  # extra to install: pip install 'anygpu[<extra>]'
    needs: ClassVar[tuple[str, ...]] = ()  # modules that must be installed
    dataset_format: ClassVar[str] = ""  # the data it trains on; empty: it needs no dataset
    licence: ClassVar[str] = "Apache-2.0"  # licence of the training framework
    licence_note: ClassVar[str] = ""  # what the licence means for a trained model, if it restricts its use
    accepts: ClassVar[Accepts] = Accepts()
    options: ClassVar[
        Mapping[str, Any]
    ] = {}  # options with a known default: values, or SettingOption objects
    option_schemas: ClassVar[Mapping[str, Mapping[str, Any]]] = {}  # JSON schema of options, for forms
    required_settings: ClassVar[tuple[str, ...]] = ()
    known_models: ClassVar[tuple[str, ...]] = ()  # models that a form offers
    has_other_models: ClassVar[bool] = True  # models that are not in `known_models` may be valid too
    # Why anygpu cannot start several processes of the trainer, one for each GPU; empty if it can.
    single_gpu_reason: ClassVar[str] = "it trains in one process"
    goal: ClassVar[tuple[str, str]] = ("loss", "min")  # metric that selects the best epoch, and its direction
    planner_hints: ClassVar[PlannerHints] = PlannerHints()

    def __init__(
        self, config: TrainingConfig, *, dataset_path: Path | None, output_dir: Path, context: Context
    ) -> None:
        self.config = config
        self.dataset_path = dataset_path
        self.output_dir = output_dir
        self.context = context
        self.progress = Progress()
        self.ranks: Ranks = SINGLE
        self.data_hash = ""  # hash of the dataset; set by `prepare_dataset`, shown in the model card
        self._timer = CheckpointTimer(config.checkpoint_every_s)
        self._best: Path | None = None
        self._best_unreported = False
        self._held_weights: WeightsWriter | None = None  # the best weights, if they are not on disk yet

    @classmethod
    def parse_settings(cls, settings: Mapping[str, Any]) -> TrainingConfig:
        """Check the settings and return the configuration.

        Must not import the framework: the server checks settings before it rents a machine.
        """
        config = make_config(cls.name, cls.accepts, settings)
        cls.check(config)
        return config

    @classmethod
    def check(cls, config: TrainingConfig) -> None:
        """Check settings that depend on each other; raise one BadConfig that lists every problem."""
        return

    @classmethod
    def check_processes(cls, config: TrainingConfig, count: int) -> None:
        """Raise BadConfig if a training with this config cannot use `count` processes, one for each GPU."""
        if count == 1:
            return
        if cls.single_gpu_reason:
            raise BadConfig(f"the trainer {cls.name!r} cannot use {count} GPUs: {cls.single_gpu_reason}")
        if config.device not in ("auto", "cuda", "cpu"):
            raise BadConfig(
                f"device: {config.device!r} is one device, but the training uses {count} GPUs; set auto"
            )
        if config.batch_size % count:
            raise BadConfig(
                f"batch_size: the {count} GPUs share each batch, and {config.batch_size} is not a multiple of {count}"
            )

    @classmethod
    def extras(cls, config: TrainingConfig) -> tuple[str, ...]:
        """Return the extras (`pip install 'anygpu[<extra>]'`) that a training with this config needs."""
        return (cls.extra,) if cls.extra else ()

    @classmethod
    def modules(cls, config: TrainingConfig) -> dict[str, str]:
        """Return the modules that a training with this config imports, each with the extra that installs it."""
        return dict.fromkeys(cls.needs, cls.extra)

    @classmethod
    def grows(cls, config: TrainingConfig) -> bool:
        """Return whether later steps take longer than earlier ones. Must not import the framework."""
        return False

    @classmethod
    def check_dataset(cls, config: TrainingConfig, path: Path) -> None:
        """Check the dataset before it is uploaded; raise BadDataset. Must not import the framework."""
        return

    # -- implemented by each trainer -----------------------------------------------------------------------

    @abstractmethod
    def prepare_dataset(self) -> None:
        """Check and load the dataset; raise BadDataset if it has problems."""

    @abstractmethod
    def create_model(self) -> None:
        """Create the model, the optimizer and all other objects with state."""

    @abstractmethod
    def save_checkpoint(self, directory: Path) -> None:
        """Write the complete training state into the empty `directory`."""

    def contribute_state(self) -> None:
        """Send the state that only this rank has to rank 0, which is in `save_checkpoint`."""
        return

    @abstractmethod
    def load_checkpoint(self, directory: Path) -> None: ...

    @abstractmethod
    def save_weights(self, directory: Path, stem: str) -> Path | None:
        """Write the model as `<stem>.<suffix>` in `directory`, replacing the file atomically.

        Return None if there is nothing to save.
        """

    def hold_weights(self) -> WeightsWriter | None:
        """Copy the current weights in memory and return a function that writes this copy to a file later.

        If it returns None, as here, the caller writes the weights to a file at once with `save_weights`.
        """
        return None

    @abstractmethod
    def load_weights(self, path: Path) -> None:
        """Load weights that `save_weights` wrote. Called before the exports, with the weights of the best epoch."""

    @abstractmethod
    def export_model(self, format: str, directory: Path) -> Export:
        """Export the model to a file in `directory`; raise BadExport if its outputs differ from the model's."""

    # -- training loop -------------------------------------------------------------------------------------

    def train(self) -> TrainingResult:
        """Train from the last checkpoint, or from the beginning, then export the model and write the model card."""
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
        if not self.single_gpu_reason:
            self.check_processes(self.config, size_from_environment())
        self.ranks = self.join_ranks()
        self.output_dir.mkdir(parents=True, exist_ok=True)
        try:
            first_then_others(self.ranks, self.prepare_dataset)
            self.create_model()
            self.restore()
            self.ranks.wait()  # the first checkpoint replaces the one that other ranks may still read
            self.fit()
            self.checkpoint(wait=True)
        except Stopped:
            return self._result(stopped=True)
        return self._finish() if self.ranks.is_first else self._result()

    def join_ranks(self) -> Ranks:
        """Connect to the other processes of the training, if a launcher has started several."""
        return SINGLE

    @abstractmethod
    def fit(self) -> None:
        """Train until `progress.epoch` reaches the configured epochs, or `is_stale` returns True."""

    def step_done(self, metrics: Mapping[str, float], *, steps_per_epoch: int | None = None) -> None:
        """Record a completed step. Save a checkpoint if one is due.

        If training should stop, save a checkpoint and raise Stopped.
        """
        progress = self.progress
        progress.step += 1
        progress.step_in_epoch += 1
        steps = steps_per_epoch * self.config.epochs if steps_per_epoch else None
        self.context.report(metrics, At(progress.step, steps=steps, epochs=self.config.epochs))
        self._save_or_stop()

    def epoch_done(self, metrics: Mapping[str, float]) -> None:
        """Record a completed epoch and its metrics."""
        progress, metrics = self.progress, self.ranks.share(dict(metrics))
        progress.finish_epoch(metrics, self.goal)
        self.context.report(metrics, At(progress.step, epoch=progress.epoch, epochs=self.config.epochs))
        if progress.best_epoch == progress.epoch:
            self._keep_best()
        self._save_or_stop()

    def is_stale(self) -> bool:
        """Return whether training should end early, because the last `patience` epochs brought no improvement."""
        patience = self.config.patience
        return patience > 0 and self.progress.epoch - self.progress.best_epoch >= patience

    def checkpoint(self, *, wait: bool = False) -> None:
        """Save a checkpoint now. The previous checkpoint is removed only after the new one is complete.

        Rank 0 saves it; the other ranks only contribute their state.
        """
        if not self.ranks.is_first:
            self.contribute_state()
            return
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
            replace_checkpoint(draft, place / LAST, place / PREVIOUS)
            self.context.checkpoint(place / LAST, step=self.progress.step, wait=wait)
            self._report_best()

    def restore(self) -> None:
        checkpoint = self.context.restore()
        if checkpoint is None:
            return
        self.progress = Progress.load(checkpoint / "progress.json")
        self._timer.continue_from(self.progress)
        self._best = self._restore_best(checkpoint) if self.ranks.is_first else None
        self.load_checkpoint(checkpoint)

    def require(self) -> None:
        """Raise MissingExtra if a required module is not installed."""
        for module, extra in self.modules(self.config).items():
            if importlib.util.find_spec(module) is None:
                raise MissingExtra(self.name, module, extra)

    def require_dataset(self) -> Path:
        """Return the path of the dataset; raise BadConfig if the job has none."""
        if self.dataset_path is None:
            raise BadConfig(f"dataset_path: the training needs a dataset; give {self.dataset_format}")
        return self.dataset_path

    # -- checkpoints and best weights ----------------------------------------------------------------------

    def _checkpoints(self) -> Path:
        return self.context.workplace(self.output_dir) / "checkpoints"

    def _save_or_stop(self) -> None:
        action = STOP if self.context.should_stop() else SAVE if self._timer.is_due() else CONTINUE
        action = self.ranks.decide(action)  # all ranks stop and save after the same step
        if action == STOP:
            self.checkpoint(wait=True)
            raise Stopped
        if action == SAVE:
            self.checkpoint()

    def _keep_best(self) -> None:
        if not self.ranks.is_first:
            return
        with self._timer.standstill(to_resume=False):
            self._held_weights = self.hold_weights()
            if self._held_weights is None:
                self._best, self._best_unreported = self.save_weights(self.output_dir, "best"), True

    def _write_held_weights(self) -> None:
        """Write the best weights to disk if they are only in memory (`hold_weights`), for the next checkpoint."""
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
            copy_checkpoint(self._best, draft / self._best.name)

    def _restore_best(self, checkpoint: Path) -> Path | None:
        """Copy the best weights from the checkpoint to the output directory."""
        best = next(iter(sorted(checkpoint.glob("best*"))), None)
        if best is None:
            return None
        copy_checkpoint(best, self.output_dir / best.name)
        return self.output_dir / best.name

    # -- results -------------------------------------------------------------------------------------------

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
    """Base class of trainers that use anygpu's training loop. A subclass implements `train_epoch`."""

    @abstractmethod
    def train_epoch(self, epoch: int) -> Mapping[str, float]:
        """Train from `progress.step_in_epoch` to the end of `epoch` (0-based).

        Return the training metrics of the epoch. Call `step_done` after each step. Keep running sums, such as
        the sum of the losses, in `progress.totals`, which every checkpoint includes.
        """

    @abstractmethod
    def validate(self, epoch: int) -> Mapping[str, float]: ...

    def fit(self) -> None:
        """Train and validate all remaining epochs."""
        while self.progress.epoch < self.config.epochs and not self.is_stale():
            epoch = self.progress.epoch
            trained = self.train_epoch(epoch)
            validated = self.validate(epoch) if self.ranks.is_first else {}  # the other ranks wait
            self.epoch_done({**trained, **validated})
