"""The `yolo` trainer: ultralytics' models and training loop behind anygpu's trainer interface.

A checkpoint has the weights and their average in full precision, the optimiser, accumulated gradients, the
scaler, the position in the epoch and the random states. A resumed run repeats no batch. With data loader
processes (`workers`), augmentations after a resume differ from those of an uninterrupted run.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from anygpu.trainers.config import Accepts, TrainingConfig
from anygpu.trainers.contract import PlannerHints, WeightsWriter
from anygpu.trainers.errors import BadConfig, TrainerError
from anygpu.trainers.result import Export
from anygpu.trainers.torch.processes import TorchProcesses
from anygpu.trainers.yolo import arguments, dataset, isolation
from anygpu.trainers.yolo import models as names

METRICS = {
    "metrics/precision(B)": "precision",
    "metrics/recall(B)": "recall",
    "metrics/mAP50(B)": "mAP50",
    "metrics/mAP50-95(B)": "mAP50-95",
    "metrics/mAP50(M)": "mask_mAP50",
    "metrics/mAP50-95(M)": "mask_mAP50-95",
    "metrics/mAP50(P)": "pose_mAP50",
    "metrics/mAP50-95(P)": "pose_mAP50-95",
    "metrics/accuracy_top1": "accuracy",
    "metrics/accuracy_top5": "accuracy_top5",
}


class Yolo(TorchProcesses):
    name = "yolo"
    title = "YOLO"
    description = "Detects, segments or classifies objects in images, or finds key points, with ultralytics."
    extra = "yolo"
    needs = ("ultralytics", "torch")
    dataset_format = "a folder or archive in YOLO, COCO or image-folder layout"
    licence = "AGPL-3.0"
    licence_note = (
        "ultralytics is AGPL-3.0, and so are models trained with it, unless you have another licence."
    )
    known_models = tuple(f"{stem}{size}" for stem, sizes, _ in names.FAMILIES.values() for size in sizes)
    # ultralytics' score of an epoch: mAP50-95 for boxes, accuracy for classes
    goal = ("fitness", "max")
    accepts = Accepts(
        tasks=tuple(names.TASKS),
        options=arguments.NAMES,
        optimizers=(*arguments.OPTIMIZERS, *(each.lower() for each in arguments.OPTIMIZERS[1:])),
        schedulers=arguments.SCHEDULERS,
        exports=("onnx", "torchscript"),
    )
    planner_hints = PlannerHints(
        framework="ultralytics", default_model=names.DEFAULT, requirements=("torch",)
    )

    @classmethod
    def check(cls, config: TrainingConfig) -> None:
        _model(config)
        if "," in config.device:
            raise BadConfig(
                f"device: {config.device!r} names several devices, but a process of this trainer uses one; set auto,"
                " and ask for several GPUs in the job (resources.gpu) or with --processes"
            )

    @classmethod
    def check_processes(cls, config: TrainingConfig, count: int) -> None:
        super().check_processes(config, count)
        if count > 1 and config.option("rect", False):
            raise BadConfig(
                "rect: it puts images of one shape into a batch, and so cannot be used on several GPUs; remove it"
            )

    @classmethod
    def check_dataset(cls, config: TrainingConfig, path: Path) -> None:
        dataset.read(config, path, _model(config).task)

    # -- the trainer interface ---------------------------------------------------------------------

    def prepare_dataset(self) -> None:
        self.model = _model(self.config)
        source = dataset.read(self.config, self.require_dataset(), self.model.task)
        self.data_hash = source.sha256
        isolation.isolate(self._home() / "settings")
        target = self._home() / "dataset"
        if self.ranks.is_first:
            self.data = dataset.prepare(source, self.model.task, target)
        else:
            self.data = dataset.prepared_path(self.model.task, target)

    def create_model(self) -> None:
        from anygpu.trainers.yolo import engine

        hooks = engine.EngineHooks(step=self._step, epoch=self._epoch)
        try:
            self.engine = engine.make(self.model.task, self._arguments(), hooks, self.ranks)
        except (TypeError, ValueError, SyntaxError) as error:
            raise BadConfig(
                f"ultralytics refuses the settings; change the one that it names: {error}"
            ) from error

    def _arguments(self) -> dict[str, Any]:
        from anygpu.trainers.torch.device import choose_device

        made = arguments.overrides(
            self.config,
            model=self.model.start,
            task=self.model.task,
            data=self.data,
            home=self._home(),
            rank=self.ranks.rank,
        )
        shared = self.ranks.size > 1
        return {**made, "device": str(choose_device(self.config.device, self.ranks))} if shared else made

    def fit(self) -> None:
        from anygpu.trainers.yolo import engine

        if self.progress.epoch >= self.config.epochs or self.is_stale():
            self.engine._setup_train()  # training is complete; only create the model
            return
        try:
            engine.run(self.engine)
        except RuntimeError as error:
            raise _explain_error(error) from error

    def save_checkpoint(self, directory: Path) -> None:
        import torch

        progress = self.progress
        state = self.engine.snapshot(epoch=progress.epoch, done_in_epoch=progress.step_in_epoch)
        torch.save(state, directory / "state.pt")

    def contribute_state(self) -> None:
        self.engine.contribute_state()

    def load_checkpoint(self, directory: Path) -> None:
        import torch

        state = torch.load(directory / "state.pt", map_location="cpu", weights_only=True)
        self.engine.resume_from(state)

    def save_weights(self, directory: Path, stem: str) -> Path:
        """Save the averaged weights in ultralytics' format, which YOLO("best.pt") opens."""
        from anygpu.trainers.yolo import export as weights

        return weights.save(self.engine, directory / f"{stem}.pt")

    def hold_weights(self) -> WeightsWriter:
        from anygpu.trainers.yolo import export as weights

        held = {name: value.clone() for name, value in self.engine.ema.ema.state_dict().items()}
        return lambda directory, stem: weights.save(self.engine, directory / f"{stem}.pt", held)

    def load_weights(self, path: Path) -> None:
        self.trained = path

    def export_model(self, format: str, directory: Path) -> Export:
        from anygpu.trainers.yolo.export import export as exported

        source = shutil.copyfile(self.trained, directory / f"{self.model.name}.pt")
        try:
            return exported(source, format, directory, int(self.engine.args.imgsz))
        finally:
            source.unlink()

    # -- callbacks of the loop ---------------------------------------------------------------------

    def _step(self, engine: Any) -> None:
        self.progress.saw(engine.samples())
        losses = {name: float(value) for name, value in engine.loss_items.items()}
        self.step_done({**losses, "loss": sum(losses.values())}, steps_per_epoch=len(engine.train_loader))

    def _epoch(self, engine: Any) -> None:
        self.epoch_done(self._read_metrics(engine))
        engine.stop = engine.stop or self.is_stale()

    def _read_metrics(self, engine: Any) -> dict[str, float]:
        losses = {name: float(value) for name, value in engine.tloss.items()}
        scores = {METRICS.get(name, name): float(value) for name, value in engine.metrics.items()}
        fitness = {} if engine.fitness is None else {"fitness": float(engine.fitness)}
        return {"loss": sum(losses.values()), **scores, **fitness}

    def _home(self) -> Path:
        """Return the directory for ultralytics' own files, next to the checkpoints.

        The path is absolute, because ultralytics resolves relative paths against a directory of its own.
        """
        return (self.context.workplace(self.output_dir) / "ultralytics").resolve()


def _model(config: TrainingConfig) -> names.YoloModel:
    return names.choose_model(config.model, config.weights, config.task)


def _explain_error(error: RuntimeError) -> Exception:
    if "NaN" in str(error):
        return TrainerError(f"{error}: the training diverged; set a lower learning_rate, or amp: false")
    return error
