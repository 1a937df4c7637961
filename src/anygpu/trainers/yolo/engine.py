"""Ultralytics' own training loop, which says where it is, can be saved after any batch, and goes on from there.

Ultralytics itself saves at the end of an epoch, in half precision, and goes on from its averaged weights. Here the
weights, their average, the optimiser, the scaler, the gradients under way and the random states are kept as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from ultralytics.engine import trainer as engine_module
from ultralytics.models import yolo
from ultralytics.utils.torch_utils import unwrap_model

from anygpu.trainers.torch import state
from anygpu.trainers.yolo.dataset import EpochOrder

KINDS = {
    "detect": yolo.detect.DetectionTrainer,
    "segment": yolo.segment.SegmentationTrainer,
    "classify": yolo.classify.ClassificationTrainer,
    "pose": yolo.pose.PoseTrainer,
}
State = dict[str, Any]
NEVER = 1 << 30


class EngineHooks:
    """What the loop tells: `step(engine)` after each batch, `epoch(engine)` after each validation."""

    def __init__(self, step: Callable[[Any], None], epoch: Callable[[Any], None]) -> None:
        self.on_train_batch_end = step
        self.on_fit_epoch_end = epoch


def make(task: str, overrides: Mapping[str, Any], hooks: EngineHooks) -> Any:
    return _kind(task)(dict(overrides), hooks)


@functools.cache
def _kind(task: str) -> Any:
    """The name has no "Trainer" in it: ultralytics adds its platform's callbacks to classes that have."""
    return type(f"Resumable{task.title()}", (ResumableEngine, KINDS[task]), {})


class ResumableEngine:
    """Mixed into ultralytics' trainer of a task."""

    def __init__(self, overrides: dict[str, Any], hooks: EngineHooks) -> None:
        self.hooks = hooks
        self.state: State | None = None  # to go on from, until the first batch is done
        self.done_in_epoch = 0
        self.pending, self.stepped = 0, False  # batches whose gradients wait for an optimiser step
        super().__init__(overrides=overrides)  # type: ignore[call-arg]

    # -- going on ---------------------------------------------------------------------------------------------

    def setup_model(self: Any) -> Any:
        if self.state is None:
            return super().setup_model()  # type: ignore[misc]
        # The shape is in the checkpoint: the weights file one started from need not be on this machine.
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
        return loader

    def _order(self: Any, loader: Any) -> EpochOrder:
        sequential = isinstance(loader.sampler, torch.utils.data.SequentialSampler)
        at = self.state or {"epoch": self.start_epoch, "done_in_epoch": 0}
        return EpochOrder(
            len(loader.dataset),
            seed=self.args.seed,
            epoch=at["epoch"],
            skip=at["done_in_epoch"] * loader.batch_size,
            shuffle=not sequential,
        )

    def _close_dataloader_mosaic(self: Any) -> None:
        """The loader begins anew after this, and with it the order."""
        super()._close_dataloader_mosaic()  # type: ignore[misc]
        if self.epoch != self.start_epoch:
            self.order.next_epoch = self.epoch

    # -- telling ----------------------------------------------------------------------------------------------

    def run_callbacks(self: Any, event: str) -> None:
        """Ours alone: no integration of ultralytics' reports anywhere."""
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
        state.set_random_state(self.state["chance"])

    def _end_batch(self: Any) -> None:
        if self.state is not None and self.done_in_epoch:
            self.tloss = _mean(self.state["losses"], self.loss_items, self.done_in_epoch)
        self.state = None
        self.done_in_epoch += 1
        self.pending = 0 if self.stepped else self.pending + 1
        self.stepped, self.accumulate = False, self.wanted

    def preprocess_batch(self: Any, batch: Any) -> Any:
        """The loop knows of no batches before its start: it steps when we say that enough have been added up."""
        self.wanted = self.accumulate
        self.accumulate = 1 if self.pending + 1 >= self.wanted else NEVER
        return super().preprocess_batch(batch)  # type: ignore[misc]

    def optimizer_step(self: Any) -> None:
        super().optimizer_step()  # type: ignore[misc]
        self.stepped = True

    def samples(self: Any) -> list[int]:
        """The ids of those in the batch that was just trained on."""
        size = self.train_loader.batch_size
        ids: list[int] = self.order.of(self.epoch)[
            (self.done_in_epoch - 1) * size : self.done_in_epoch * size
        ]
        return ids

    # -- saving -----------------------------------------------------------------------------------------------

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
            "criterion": _plain(getattr(model, "criterion", None)),
            "gradients": _gradients(model) if self.pending else {},
            "pending": self.pending,
            "losses": {name: float(value) for name, value in self.tloss.items()} if done_in_epoch else {},
            "buffer": list(getattr(self.train_loader.dataset, "buffer", ())),
            "chance": state.random_state(),
        }

    def save_model(self) -> bool:
        """The contract saves."""
        return False

    def final_eval(self) -> None:
        """The contract keeps the best epoch, which has been measured."""


class CountedLoader:
    """Stands in for ultralytics' progress bar: counts batches from where the epoch was left."""

    def __init__(self, engine: Any, batches: Any, total: int) -> None:
        self._batches, self._total, self._first = batches, total, engine.done_in_epoch

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        for number, batch in self._batches:
            yield number + self._first, batch
            if number + self._first + 1 >= self._total:
                return

    def set_description(self, text: str) -> None:
        """Progress is told by the contract."""


def run(engine: Any) -> None:
    """Ultralytics' loop, with its counting replaced for as long as it runs."""
    bar = engine_module.TQDM
    engine_module.TQDM = lambda batches, total: CountedLoader(engine, batches, total)
    try:
        engine.train()
    finally:
        engine_module.TQDM = bar


def _restore_optimizer(optimizer: Any, saved: Any) -> None:
    """Which kernel it uses is the machine's matter, not the checkpoint's."""
    for group, own in zip(saved["param_groups"], optimizer.param_groups, strict=True):
        group["fused"] = own.get("fused")
    optimizer.load_state_dict(saved)


def _plain(criterion: Any) -> dict[str, float]:
    """What a loss remembers: YOLO26 shifts its weights from epoch to epoch."""
    known = vars(criterion) if hasattr(criterion, "updates") else {}
    return {name: value for name, value in known.items() if isinstance(value, (int, float))}


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
    """Mosaics are made of images loaded lately."""
    for index in buffer:
        dataset.load_image(index)


def _mean(before: Mapping[str, float], items: Any, count: int) -> dict[str, Any]:
    return {name: (before[name] * count + value) / (count + 1) for name, value in items.items()}
