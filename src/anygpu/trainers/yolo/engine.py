"""Extend ultralytics' training loop: report progress, save after any batch, and resume exactly there.

Ultralytics itself saves at the end of an epoch, in half precision, and resumes from its averaged weights.
Here a checkpoint has the exact weights, their average, the optimiser, the scaler, accumulated gradients and
random states.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from ultralytics.engine import trainer as engine_module
from ultralytics.models import yolo
from ultralytics.utils.torch_utils import unwrap_model

from anygpu.trainers.ranks import SINGLE, Ranks
from anygpu.trainers.torch import state
from anygpu.trainers.yolo.dataset import EpochOrder
from anygpu.trainers.yolo.sharing import SharingEngine

KINDS = {
    "detect": yolo.detect.DetectionTrainer,
    "segment": yolo.segment.SegmentationTrainer,
    "classify": yolo.classify.ClassificationTrainer,
    "pose": yolo.pose.PoseTrainer,
}
State = dict[str, Any]
NEVER = 1 << 30


class EngineHooks:
    """Callbacks of the training loop: `step(engine)` after each batch, `epoch(engine)` after each validation."""

    def __init__(self, step: Callable[[Any], None], epoch: Callable[[Any], None]) -> None:
        self.on_train_batch_end = step
        self.on_fit_epoch_end = epoch


def make(task: str, overrides: Mapping[str, Any], hooks: EngineHooks, ranks: Ranks = SINGLE) -> Any:
    return _kind(task, ranks.size > 1)(dict(overrides), hooks, ranks)


@functools.cache
def _kind(task: str, is_shared: bool) -> Any:
    """Return the class that trains a task: ultralytics' trainer, made resumable.

    The class name must not contain "Trainer": ultralytics adds callbacks of its platform to such classes.
    """
    shared = (SharingEngine,) if is_shared else ()
    return type(f"Resumable{task.title()}", (*shared, ResumableEngine, KINDS[task]), {})


class ResumableEngine:
    """Mixin for ultralytics' trainers that makes a training resumable after any batch."""

    def __init__(self, overrides: dict[str, Any], hooks: EngineHooks, ranks: Ranks = SINGLE) -> None:
        self.hooks, self.ranks = hooks, ranks
        self.state: State | None = None  # checkpoint to resume from; None after the first batch
        self.done_in_epoch = 0
        self.pending, self.stepped = 0, False  # batches since the last optimiser step
        super().__init__(overrides=overrides)  # type: ignore[call-arg]

    # -- resuming ----------------------------------------------------------------------------------

    def resume_from(self, saved: State) -> None:
        """Continue from a snapshot when the training starts."""
        self.state = saved

    def setup_model(self: Any) -> Any:
        if self.state is None:
            return super().setup_model()  # type: ignore[misc]
        # The checkpoint has the architecture. The initial weights file may not exist on this machine.
        self.model = self.get_model(cfg=self.state["yaml"], weights=None, verbose=False)
        return None

    def resume_training(self: Any, ckpt: Any) -> None:
        kept = self.state
        if kept is None:
            return
        model = unwrap_model(self.model)
        model.load_state_dict(kept["model"])
        self.ema.ema.load_state_dict(kept["ema"])
        self.ema.updates = kept["ema_updates"]
        _restore_optimizer(self.optimizer, kept["optimizer"])
        self.scaler.load_state_dict(kept["scaler"])
        self.best_fitness, self.pending = kept["best_fitness"], kept["pending"]
        self.start_epoch, self.done_in_epoch = kept["epoch"], kept["done_in_epoch"]
        _restore_criterion(model, kept["criterion"])

    def get_dataloader(
        self: Any, dataset_path: Any, batch_size: int = 16, rank: int = 0, mode: str = "train"
    ) -> Any:
        loader = super().get_dataloader(dataset_path, batch_size, rank, mode)  # type: ignore[misc]
        if mode == "train":
            self.order = self._order(loader)
            loader.batch_sampler.sampler.sampler = self.order
            object.__setattr__(loader, "sampler", self.order)  # a DataLoader refuses to change it
        return loader

    def _order(self: Any, loader: Any) -> EpochOrder:
        sequential = isinstance(loader.sampler, torch.utils.data.SequentialSampler)
        at = self.state or {"epoch": self.start_epoch, "done_in_epoch": 0}
        return EpochOrder(
            len(loader.dataset),
            self.batch_size,
            seed=self.args.seed,
            epoch=at["epoch"],
            skip=at["done_in_epoch"],
            shuffle=not sequential,
            ranks=self.ranks,
        )

    def _close_dataloader_mosaic(self: Any) -> None:
        """Turn mosaic off. Ultralytics also restarts the loader here, so set the sampler to the current epoch."""
        super()._close_dataloader_mosaic()  # type: ignore[misc]
        if self.epoch != self.start_epoch:
            self.order.next_epoch = self.epoch

    # -- hooks -------------------------------------------------------------------------------------

    def run_callbacks(self: Any, event: str) -> None:
        """Call only anygpu's hooks, not the integrations of ultralytics."""
        if event == "on_train_epoch_start":
            self._begin_epoch()
        elif event == "on_train_batch_end":
            self._end_batch()
        hook = getattr(self.hooks, event, None)
        if hook is not None:
            hook(self)

    def _begin_epoch(self: Any) -> None:
        if self.state is None:
            self.done_in_epoch = 0
            return
        _restore_gradients(self.model, self.state["gradients"])
        _refill(self.train_loader.dataset, self.state["buffer"])
        if self.state["chance"] is not None:
            state.set_random_state(self.state["chance"])

    def _end_batch(self: Any) -> None:
        if self.state is not None and self.done_in_epoch:
            self.tloss = _mean(self.state["losses"], self.loss_items, self.done_in_epoch)
        self.state = None
        self.done_in_epoch += 1
        self.pending = 0 if self.stepped else self.pending + 1
        self.stepped, self.accumulate = False, self.wanted

    def preprocess_batch(self: Any, batch: Any) -> Any:
        """Prepare a batch, and decide by `accumulate` whether the optimiser steps after this batch.

        Ultralytics counts the batches since the last optimiser step only from the resume on. `pending` counts
        them across checkpoints.
        """
        self.wanted = self.accumulate
        self.accumulate = 1 if self.pending + 1 >= self.wanted else NEVER
        return super().preprocess_batch(batch)  # type: ignore[misc]

    def optimizer_step(self: Any) -> None:
        super().optimizer_step()  # type: ignore[misc]
        self.stepped = True

    def samples(self: Any) -> list[int]:
        """Return the sample ids of the last training batch, those of all ranks."""
        ids: list[int] = self.order.batch(self.epoch, self.done_in_epoch - 1)
        return ids

    # -- saving ------------------------------------------------------------------------------------

    def snapshot(self: Any, *, epoch: int, done_in_epoch: int) -> State:
        model = unwrap_model(self.model)
        return {
            "epoch": epoch,
            "done_in_epoch": done_in_epoch,
            "yaml": model.yaml,
            "model": model.state_dict(),
            "ema": self.ema.ema.state_dict(),
            "ema_updates": self.ema.updates,
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "best_fitness": None if self.best_fitness is None else float(self.best_fitness),
            "criterion": _numeric_state(getattr(model, "criterion", None)),
            "gradients": _gradients(model) if self.pending else {},
            "pending": self.pending,
            "losses": {name: float(value) for name, value in self.tloss.items()} if done_in_epoch else {},
            **self.rank_state(),
        }

    def rank_state(self: Any) -> State:
        """Return the state that each rank has for itself: recently loaded images, and random generators."""
        return {
            "buffer": list(getattr(self.train_loader.dataset, "buffer", ())),
            "chance": state.random_state(),
        }

    def save_model(self) -> bool:
        """Do nothing: anygpu saves checkpoints itself."""
        return False

    def final_eval(self) -> None:
        """Do nothing: the best epoch has already been validated."""


class CountedLoader:
    """Replaces ultralytics' progress bar, and counts batches. In a resumed epoch the count continues."""

    def __init__(self, engine: Any, batches: Any, total: int) -> None:
        self._batches, self._total, self._first = batches, total, engine.done_in_epoch

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        for number, batch in self._batches:
            yield number + self._first, batch
            if number + self._first + 1 >= self._total:
                return

    def set_description(self, text: str) -> None:
        """Do nothing: anygpu reports progress itself."""


def run(engine: Any) -> None:
    """Run ultralytics' training loop with `CountedLoader` in place of its progress bar."""
    bar = engine_module.TQDM
    engine_module.TQDM = lambda batches, total: CountedLoader(engine, batches, total)
    try:
        engine.train()
    finally:
        engine_module.TQDM = bar


def _restore_optimizer(optimizer: Any, saved: Any) -> None:
    """Load the optimiser state. Whether fused kernels are used stays as this machine supports it."""
    for group, own in zip(saved["param_groups"], optimizer.param_groups, strict=True):
        group["fused"] = own.get("fused")
    optimizer.load_state_dict(saved)


def _numeric_state(criterion: Any) -> dict[str, float]:
    """Return the numeric attributes of a loss, for a checkpoint: YOLO26 changes its loss weights every epoch."""
    attributes = vars(criterion) if hasattr(criterion, "updates") else {}
    return {name: value for name, value in attributes.items() if isinstance(value, (int, float))}


def _restore_criterion(model: Any, remembered: Mapping[str, float]) -> None:
    if remembered:
        model.criterion = model.init_criterion()
        vars(model.criterion).update(remembered)


def _gradients(model: Any) -> dict[str, Any]:
    named = ((name, each.grad) for name, each in model.named_parameters())
    return {name: grad for name, grad in named if grad is not None}


def _restore_gradients(model: Any, gradients: Mapping[str, Any]) -> None:
    for name, each in unwrap_model(model).named_parameters():
        if name in gradients:
            each.grad = gradients[name].to(each.device)


def _refill(dataset: Any, buffer: list[int]) -> None:
    """Load the images of `buffer` again. Mosaic augmentation combines an image with recently loaded ones from it."""
    for index in buffer:
        dataset.load_image(index)


def _mean(before: Mapping[str, float], items: Any, count: int) -> dict[str, Any]:
    return {name: (before[name] * count + value) / (count + 1) for name, value in items.items()}
