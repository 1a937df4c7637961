"""Run the Trainer class of transformers, and report its steps and evaluations to anygpu's trainer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import transformers

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.errors import BadConfig
from anygpu.trainers.huggingface.samples import NUMBER
from anygpu.trainers.huggingface.settings import ARGUMENTS, LANGUAGE, OPTIMIZERS

if TYPE_CHECKING:
    from anygpu.trainers.huggingface.trainer import HuggingFace

FROM_NOTHING, FROM_TRAINED = 1e-3, 5e-5  # default learning rates: from scratch, and fine-tuning


class ReportingTrainer(transformers.Trainer):  # type: ignore[misc]
    """The Trainer class of transformers, extended to report sample ids and losses to anygpu's trainer (`owner`)."""

    def __init__(self, owner: HuggingFace, **given: Any) -> None:
        super().__init__(callbacks=[_ReportingCallback(owner)], **given)
        self.owner = owner
        self.remove_callback(transformers.PrinterCallback)

    def training_step(self, model: Any, inputs: dict[str, Any], *more: Any, **named: Any) -> Any:
        self.owner.progress.saw(self.accelerator.gather(inputs.pop(NUMBER)).tolist())
        loss = super().training_step(model, inputs, *more, **named)
        self.owner.add_loss(self.accelerator.reduce(loss.detach(), "mean"))
        return loss

    def prediction_step(self, model: Any, inputs: dict[str, Any], *more: Any, **named: Any) -> Any:
        inputs.pop(NUMBER)
        return super().prediction_step(model, inputs, *more, **named)

    def save_whole(self, scratch: Path) -> Path:
        """Write a complete checkpoint in the format of transformers to the folder `scratch`, and return its path."""
        self._save_checkpoint(self.model, trial=None)
        return scratch / f"checkpoint-{self.state.global_step}"


class _ReportingCallback(transformers.TrainerCallback):  # type: ignore[misc]
    def __init__(self, owner: HuggingFace) -> None:
        self.owner = owner

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.owner.report_step(state.max_steps // int(args.num_train_epochs))

    def on_evaluate(
        self, args: Any, state: Any, control: Any, metrics: Mapping[str, float], **_: Any
    ) -> None:
        self.owner.report_epoch(_evaluation_metrics(metrics, self.owner.config.task))
        control.should_training_stop |= self.owner.is_stale()


def _evaluation_metrics(metrics: Mapping[str, float], task: str) -> dict[str, float]:
    scores = {"val_loss": float(metrics["eval_loss"])}
    if "eval_accuracy" in metrics:
        scores["accuracy"] = float(metrics["eval_accuracy"])
    if task == LANGUAGE:
        scores["perplexity"] = math.exp(min(scores["val_loss"], 700.0))
    return scores


def accuracy(evaluated: Any) -> dict[str, float]:
    logits, labels = evaluated
    logits = logits[0] if isinstance(logits, tuple) else logits
    return {"accuracy": float((logits.argmax(-1) == labels).mean())}


def arguments(config: TrainingConfig, scratch: Path, *, is_trained: bool, processes: int = 1) -> Any:
    """Return the TrainingArguments of transformers for a config.

    An option named like a TrainingArguments field takes precedence over the common setting it replaces.
    """
    given = {name: config.options[name] for name in ARGUMENTS if name in config.options}
    try:
        return transformers.TrainingArguments(**{**_ours(config, scratch, is_trained, processes), **given})
    except (ValueError, TypeError, ImportError) as error:
        raise BadConfig(f"transformers rejects the settings; change the one that it names: {error}") from None


def _ours(config: TrainingConfig, scratch: Path, is_trained: bool, processes: int) -> dict[str, Any]:
    return {
        "output_dir": str(scratch),
        "num_train_epochs": config.epochs,
        "per_device_train_batch_size": config.batch_size // processes,  # the processes share each batch
        "per_device_eval_batch_size": config.batch_size // processes,
        "learning_rate": config.learning_rate or (FROM_TRAINED if is_trained else FROM_NOTHING),
        "optim": OPTIMIZERS[config.optimizer],
        "lr_scheduler_type": config.scheduler,
        "seed": config.seed,
        "dataloader_num_workers": config.workers,
        "dataloader_pin_memory": torch.cuda.is_available(),
        "use_cpu": config.device == "cpu",
        "prediction_loss_only": config.task == LANGUAGE,
        "eval_strategy": "epoch",
        "save_strategy": "no",  # `save_whole` writes the checkpoints
        "logging_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "remove_unused_columns": False,
        **_half_precision(config),
        **_distribution(config, processes),
    }


def _distribution(config: TrainingConfig, processes: int) -> dict[str, Any]:
    if processes == 1:
        return {}
    on_gpu = torch.cuda.is_available() and config.device != "cpu"
    # With the average over tokens, transformers multiplies the loss of classifiers by the number of processes.
    return {"ddp_backend": "nccl" if on_gpu else "gloo", "average_tokens_across_devices": False}


def _half_precision(config: TrainingConfig) -> dict[str, bool]:
    if not config.amp:
        return {}
    on_gpu = torch.cuda.is_available() and config.device != "cpu"
    return {"fp16": True} if on_gpu and not torch.cuda.is_bf16_supported() else {"bf16": True}
