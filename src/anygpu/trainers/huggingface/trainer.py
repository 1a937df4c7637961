"""The `huggingface` trainer: text and image classification and language models with transformers."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anygpu.trainers import data
from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.context import At
from anygpu.trainers.contract import PlannerHints
from anygpu.trainers.errors import BadConfig, BadDataset, Finding
from anygpu.trainers.huggingface import models, samples, settings, texts
from anygpu.trainers.huggingface.settings import ACCEPTS, IMAGE, LANGUAGE, TEXT
from anygpu.trainers.result import Export
from anygpu.trainers.torch.processes import TorchProcesses

PIXELS, LENGTH, BLOCK, VOCABULARY, LOG_EVERY = 32, 128, 64, 2_000, 10


class HuggingFace(TorchProcesses):
    """Trains with the Trainer of transformers, which uses the connection of the processes."""

    name = "huggingface"
    title = "Hugging Face"
    description = "Trains transformers that classify texts or images, or continue texts."
    extra = "huggingface"
    needs = ("torch", "transformers", "accelerate", "tokenizers", "safetensors", "onnx", "onnxruntime")
    dataset_format = "a file of texts (csv, jsonl, txt) or a folder of images"
    accepts = ACCEPTS
    planner_hints = PlannerHints(framework="transformers", requirements=("torch",))

    @classmethod
    def check(cls, config: TrainingConfig) -> None:
        settings.check(config)

    @classmethod
    def check_dataset(cls, config: TrainingConfig, path: Path) -> None:
        if config.task == IMAGE:
            data.load(path, task=IMAGE, val_fraction=config.val_fraction, seed=config.seed)
        else:
            _texts(config, path)

    # -- data and model ----------------------------------------------------------------------------

    def prepare_dataset(self) -> None:
        self.goal = ("val_loss", "min") if self.config.task == LANGUAGE else ("accuracy", "max")  # type: ignore[misc]
        self.tokenizer: Any = None
        self.classes: tuple[str, ...] = ()
        prepare = {TEXT: self._prepare_labelled, LANGUAGE: self._prepare_running, IMAGE: self._prepare_images}
        prepare[self.config.task](self.require_dataset())

    def _prepare_labelled(self, path: Path) -> None:
        config, dataset = self.config, _texts(self.config, path)
        self.tokenizer, self.classes = self._tokenizer(dataset, models.PAIRS), dataset.classes
        length = config.option("max_length", LENGTH)
        self.train_set: Any = samples.ClassifiedTexts(dataset.train, dataset.classes, self.tokenizer, length)
        self.val_set: Any = samples.ClassifiedTexts(dataset.val, dataset.classes, self.tokenizer, length)
        self.data_hash = dataset.sha256

    def _prepare_running(self, path: Path) -> None:
        config, dataset = self.config, _texts(self.config, path)
        self.tokenizer = self._tokenizer(dataset, models.CHARACTERS)
        block = config.option("block_size", BLOCK)
        self.train_set = samples.TextPassages(dataset.train, self.tokenizer, block)
        self.val_set = samples.TextPassages(dataset.val, self.tokenizer, block)
        if not len(self.train_set) or not len(self.val_set):
            raise BadDataset(
                [
                    Finding(
                        path,
                        f"is too short for sequences of {block} tokens; add text, or make `block_size` smaller",
                    )
                ]
            )
        self.data_hash = dataset.sha256

    def _prepare_images(self, path: Path) -> None:
        config = self.config
        dataset = data.load(path, task=IMAGE, val_fraction=config.val_fraction, seed=config.seed)
        size = config.image_size or PIXELS
        self.classes = tuple(dataset.classes)
        self.train_set = samples.ClassifiedImages(dataset.splits["train"], size)
        self.val_set = samples.ClassifiedImages(dataset.splits["val"], size)
        self.data_hash = dataset.sha256

    def _tokenizer(self, dataset: texts.Texts, usual: str) -> Any:
        """Return the tokenizer: the one saved in the checkpoint, the one the settings name, or a new `usual` one."""
        checkpoint = self.context.restore()
        if checkpoint is not None:
            return models.load_tokenizer(checkpoint)
        own = models.start_from(self.config)
        wanted = self.config.option("tokenizer", "") or own or usual
        if wanted in (models.CHARACTERS, models.PAIRS):
            size = self.config.option("vocab_size", VOCABULARY)
            return models.train_tokenizer(wanted, [row.text for row in dataset.train], size)
        try:
            return models.load_tokenizer(wanted)
        except BadConfig as error:
            raise models.not_found(own, error) if wanted == own else error from None

    def create_model(self) -> None:
        import transformers

        from anygpu.trainers.huggingface import loop

        config = self.config
        self.scratch = self._checkpoints() / "scratch"
        self.resume_from: Path | None = None
        self.loss: Any = None
        transformers.utils.logging.disable_progress_bar()  # anygpu reports progress itself
        transformers.set_seed(config.seed)
        self.model = models.create(config, self._model_config_values(), self.classes)
        trained = bool(models.start_from(config))
        self.loop = loop.ReportingTrainer(
            self,
            model=self.model,
            args=loop.arguments(config, self.scratch, is_trained=trained, processes=self.ranks.size),
            train_dataset=self.train_set,
            eval_dataset=self.val_set,
            data_collator=self._collator(),
            processing_class=self.tokenizer,
            compute_metrics=None if config.task == LANGUAGE else loop.accuracy,
        )

    def _collator(self) -> samples.Collator:
        return samples.Collator(pad=0 if self.tokenizer is None else self.tokenizer.pad_token_id)

    def _model_config_values(self) -> dict[str, Any]:
        if self.tokenizer is None:
            size = self.config.image_size or PIXELS
            return {"image_size": size, "patch_size": max(4, size // 8)} if self._has_patches() else {}
        longest = max(self.config.option("max_length", LENGTH), self.config.option("block_size", BLOCK))
        ends = {"bos_token_id": self.tokenizer.bos_token_id, "eos_token_id": self.tokenizer.eos_token_id}
        return {
            "vocab_size": len(self.tokenizer),
            "max_position_embeddings": longest,
            "pad_token_id": self.tokenizer.pad_token_id,
            **(ends if self.config.task == LANGUAGE else {}),
        }

    def _has_patches(self) -> bool:
        return (self.config.model or models.USUAL[IMAGE]) in ("vit", "deit", "beit")

    # -- training loop ----------------------------------------------------------------------------

    def fit(self) -> None:
        if self.progress.epoch >= self.config.epochs or self.is_stale():
            return
        resume = None if self.resume_from is None else str(self.resume_from)
        self.loop.train(resume_from_checkpoint=resume)

    def add_loss(self, loss: Any) -> None:
        """Add the loss of a batch to the sum of the epoch. The sum stays on the GPU, so that the CPU need not wait."""
        self.loss = loss.detach() if self.loss is None else self.loss + loss.detach()

    def report_step(self, steps_per_epoch: int) -> None:
        """Record a completed step, and save a checkpoint if one is due.

        After the last step of an epoch, none is saved here: `report_epoch` saves it after the evaluation.
        """
        progress = self.progress
        every = self.config.option("log_every", LOG_EVERY)
        metrics = self._mean_loss(progress.step_in_epoch + 1) if (progress.step + 1) % every == 0 else {}
        if progress.step_in_epoch + 1 < steps_per_epoch:
            self.step_done(metrics, steps_per_epoch=steps_per_epoch)
            return
        progress.step += 1
        progress.step_in_epoch += 1
        steps = steps_per_epoch * self.config.epochs
        self.context.report(metrics, At(progress.step, steps=steps, epochs=self.config.epochs))

    def report_epoch(self, metrics: Mapping[str, float]) -> None:
        self.epoch_done({**self._mean_loss(self.progress.step_in_epoch), **metrics})

    def _mean_loss(self, steps: int) -> dict[str, float]:
        """Return the mean loss of the first `steps` steps of the epoch, as a metric."""
        self._sum_up()
        return {"loss": self.progress.totals.get("loss", 0.0) / max(1, steps)}

    def _sum_up(self) -> None:
        totals = self.progress.totals
        if self.loss is not None:
            totals["loss"] = totals.get("loss", 0.0) + float(self.loss)
            self.loss = None

    # -- saving and exporting ----------------------------------------------------------------------

    def contribute_state(self) -> None:
        """Write the files of this rank, such as its random state, beside those of rank 0."""
        if self.loop.optimizer is not None:
            self.loop.save_whole(self.scratch)
            self.ranks.wait()

    def save_checkpoint(self, directory: Path) -> None:
        self._sum_up()
        if self.loop.optimizer is None:  # no epoch was left to train: copy the old checkpoint
            assert self.resume_from is not None
            shutil.copytree(self.resume_from, directory, dirs_exist_ok=True)
            return
        written = self.loop.save_whole(self.scratch)
        self.ranks.wait()  # the other ranks have written their files
        for path in written.iterdir():
            path.rename(directory / path.name)
        shutil.rmtree(self.scratch)

    def load_checkpoint(self, directory: Path) -> None:
        """Load the weights. `fit` lets transformers restore the rest of the state, such as the optimiser."""
        self.resume_from = self._checkpoints() / "resumed"
        if self.ranks.is_first:
            shutil.rmtree(self.resume_from, ignore_errors=True)
            shutil.copytree(directory, self.resume_from)  # the next checkpoint replaces the original
        self.load_weights(directory)

    def save_weights(self, directory: Path, stem: str) -> Path:
        from anygpu.trainers.huggingface import export

        draft = directory / f".{stem}.draft"
        shutil.rmtree(draft, ignore_errors=True)
        export.save(self.model, self.tokenizer, draft)
        shutil.rmtree(directory / stem, ignore_errors=True)
        return draft.rename(directory / stem)

    def load_weights(self, path: Path) -> None:
        saved = type(self.model).from_pretrained(str(path))
        self.model.load_state_dict(saved.state_dict())

    def export_model(self, format: str, directory: Path) -> Export:
        from anygpu.trainers.huggingface import export

        if format == "safetensors":
            return export.to_safetensors(self.model, self.tokenizer, directory / "safetensors")
        return export.to_onnx(self.model, self._example(), directory / "model.onnx")

    def _example(self) -> dict[str, Any]:
        batch = self._collator()([self.val_set[at] for at in range(min(2, len(self.val_set)))])
        return {name: batch[name] for name in batch if name not in ("labels", samples.NUMBER)}


def _texts(config: TrainingConfig, path: Path) -> texts.Texts:
    column = config.option("text_column", "")
    if config.task == LANGUAGE:
        return texts.read_plain(path, text=column, val_fraction=config.val_fraction)
    return texts.read_labelled(
        path,
        text=column,
        label=config.option("label_column", ""),
        val_fraction=config.val_fraction,
        seed=config.seed,
    )
