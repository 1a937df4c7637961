"""The tabular trainer: predicts a column of a table with scikit-learn, XGBoost or LightGBM."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from anygpu.trainers import data
from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.contract import PlannerHints, Trainer, WeightsWriter
from anygpu.trainers.errors import BadConfig, BadDataset, Finding, TrainerError
from anygpu.trainers.result import Export
from anygpu.trainers.tabular import estimators, predictions
from anygpu.trainers.tabular.columns import Columns, choose_columns
from anygpu.trainers.tabular.predictions import make_predictor
from anygpu.trainers.tabular.preprocessing import PreparedTable, SplitArrays, prepare
from anygpu.trainers.tabular.settings import ACCEPTS, MODELS, OPTION_SCHEMAS, OPTIONS, check, steps_grow

BOOSTING_LIBRARIES = ("xgboost", "lightgbm")  # each is also the name of its model
HINTS = PlannerHints(
    framework="sklearn", model_frameworks={name: name for name in BOOSTING_LIBRARIES}, needs_gpu=False
)
ONNX = ("onnx", "onnxruntime", "skl2onnx")


class Tabular(Trainer):
    """Trains a model on a table.

    Depending on the model, an epoch adds `rounds` trees or boosting rounds, or trains once on every row.
    """

    name = "tabular"
    title = "Tables"
    description = "Predicts a column of a table with scikit-learn, XGBoost or LightGBM. Needs no GPU."
    extra = "tabular"
    needs: ClassVar[tuple[str, ...]] = ("sklearn", "numpy", "joblib")
    dataset_format = "a CSV or Parquet file"
    licence = "BSD-3-Clause (XGBoost: Apache-2.0, LightGBM: MIT)"
    accepts = ACCEPTS
    options = OPTIONS
    option_schemas = OPTION_SCHEMAS
    required_settings = ("target",)
    known_models = tuple(MODELS)
    has_other_models = False
    planner_hints = HINTS

    @classmethod
    def check(cls, config: TrainingConfig) -> None:
        check(config)

    @classmethod
    def extras(cls, config: TrainingConfig) -> tuple[str, ...]:
        return tuple(dict.fromkeys((cls.extra, MODELS[config.model].extra)))

    @classmethod
    def modules(cls, config: TrainingConfig) -> dict[str, str]:
        model = MODELS[config.model]
        modules = {**super().modules(config), model.module: model.extra}
        if "onnx" in config.export:
            modules.update(dict.fromkeys(ONNX, cls.extra))
            modules.update({"onnxmltools": model.extra} if model.extra == "boosting" else {})
        return modules

    @classmethod
    def grows(cls, config: TrainingConfig) -> bool:
        return steps_grow(config)

    @classmethod
    def check_dataset(cls, config: TrainingConfig, path: Path) -> None:
        read(path, config)

    # -- data ----------------------------------------------------------------------------------------------

    def prepare_dataset(self) -> None:
        columns = read(self.dataset_path, self.config)
        if not self.config.task:
            sys.stderr.write(f"{_infer_task(columns, self.config)}\n")
        self.config = replace(self.config, task=columns.task)
        check(self.config)
        self.data_hash = columns.sha256
        self.goal = predictions.GOALS[columns.task]  # type: ignore[misc]  # depends on the task
        self.data: PreparedTable = prepare(columns, self.config)

    def create_model(self) -> None:
        self.model = MODELS[self.config.model]
        try:
            self.estimator = estimators.new_estimator(self.config, self.config.task)
        except (TypeError, ValueError) as error:
            raise BadConfig(f"the model {self.config.model} refuses a setting; change it: {error}") from error
        self.learn = estimators.by_rounds(self.model)
        self.of_val = make_predictor(self.model, self.data.val.inputs)
        self.of_test = (
            make_predictor(self.model, self.data.test.inputs) if self.data.test is not None else None
        )

    # -- training ------------------------------------------------------------------------------------------

    def fit(self) -> None:
        """Train all remaining epochs. Models that one call of `fit` trains completely have only one epoch."""
        if self.model.epoch == "solve":
            self.config = replace(self.config, epochs=1)
        super().fit()

    def train_epoch(self, epoch: int) -> Mapping[str, float]:
        if self.model.epoch == "batches":
            self._pass(epoch)
        elif not self.progress.step_in_epoch:
            self._round(epoch)
        return {}

    def _round(self, epoch: int) -> None:
        train, rounds = self.data.train, int(self.config.option("rounds", 1))
        try:
            self.learn(
                self.estimator,
                train.inputs,
                train.target,
                number=epoch,
                rounds=rounds,
                seed=self.config.seed,
            )
        except ValueError as error:  # the framework rejects the value of a setting
            raise BadConfig(f"the model {self.config.model} refuses a setting; change it: {error}") from error
        self.progress.saw(["every row"])
        self.step_done({}, steps_per_epoch=1)

    def _pass(self, epoch: int) -> None:
        import numpy

        train, size = self.data.train, self.config.batch_size
        order = numpy.random.default_rng([self.config.seed, 1, epoch]).permutation(len(train.target))
        batches = [order[at : at + size] for at in range(0, len(order), size)]
        for rows in batches[self.progress.step_in_epoch :]:
            estimators.batch(self.estimator, train.inputs[rows], train.target[rows], self.data.labels)
            self.progress.saw(rows.tolist())
            self.step_done({}, steps_per_epoch=len(batches))

    def validate(self, epoch: int) -> Mapping[str, float]:
        model = self._usable()
        scores = self._score(self.of_val(model), self.data.val)
        if self.data.test is not None and self.of_test is not None:
            tested = self._score(self.of_test(model), self.data.test)
            scores |= {f"test_{name}": value for name, value in tested.items()}
        return scores

    def _score(self, predicted: Any, part: SplitArrays) -> dict[str, float]:
        if self.data.labels is None:
            return predictions.regression_scores(predicted, part.truth)
        return predictions.classification_scores(predicted, part.truth, len(self.data.labels))

    def _usable(self) -> Any:
        if self.data.scale == 1.0 and self.data.centre == 0.0:
            return self.estimator
        return estimators.in_units(self.estimator, self.data.centre, self.data.scale)

    # -- checkpoints and exports ---------------------------------------------------------------------------

    def save_checkpoint(self, directory: Path) -> None:
        import joblib

        joblib.dump(self.estimator, directory / "estimator.joblib")
        (directory / "data.json").write_text(json.dumps({"sha256": self.data_hash}))

    def load_checkpoint(self, directory: Path) -> None:
        import joblib

        if json.loads((directory / "data.json").read_text())["sha256"] != self.data_hash:
            raise TrainerError(
                "the table has changed since the checkpoint was saved; use the same table, or start a new training"
            )
        self.estimator = joblib.load(directory / "estimator.joblib")

    def save_weights(self, directory: Path, stem: str) -> Path:
        """Write the model as a scikit-learn Pipeline with its preprocessing: `joblib.load(path).predict(rows)`."""
        return self._write(self._usable(), directory, stem)

    def hold_weights(self) -> WeightsWriter | None:
        """Copy a model that grows by trees in memory.

        Such a model improves in most epochs, and writing it to disk each time would be slow.
        """
        kept = estimators.hold_estimator(self.model, self.estimator)
        return None if kept is None else lambda directory, stem: self._write(kept(), directory, stem)

    def _write(self, estimator: Any, directory: Path, stem: str) -> Path:
        import joblib
        from sklearn.pipeline import Pipeline

        model = Pipeline([("columns", self.data.transformer), ("model", estimator)])
        model.class_names_ = list(self.data.columns.classes)
        model.column_names_ = [column.name for column in self.data.columns.features]
        path, draft = directory / f"{stem}.joblib", directory / f"{stem}.joblib.draft"
        joblib.dump(model, draft)
        draft.replace(path)
        return path

    def load_weights(self, path: Path) -> None:
        import joblib

        self.pipeline = joblib.load(path)

    def export_model(self, format: str, directory: Path) -> Export:
        from anygpu.trainers.tabular import export

        return export.onnx(self.pipeline, self.data, directory / "model.onnx")


class XGBoost(Tabular):
    """The tabular trainer with XGBoost as its default model."""

    title = "XGBoost"
    description = "Predicts a column of a table with XGBoost. Needs no GPU."
    extra = "boosting"
    needs = (*Tabular.needs, "xgboost")
    licence = "Apache-2.0"
    accepts = replace(ACCEPTS, defaults={**ACCEPTS.defaults, "model": "xgboost"})
    planner_hints = replace(HINTS, framework="xgboost")


class LightGBM(Tabular):
    """The tabular trainer with LightGBM as its default model."""

    title = "LightGBM"
    description = "Predicts a column of a table with LightGBM. Needs no GPU."
    extra = "boosting"
    needs = (*Tabular.needs, "lightgbm")
    licence = "MIT"
    accepts = replace(ACCEPTS, defaults={**ACCEPTS.defaults, "model": "lightgbm"})
    planner_hints = replace(HINTS, framework="lightgbm")


def read(path: Path | None, config: TrainingConfig) -> Columns:
    """Read the table and return the columns that the settings name; raise BadDataset if it has problems."""
    if path is None:
        raise BadDataset(
            [
                Finding(
                    Path(), "the tabular trainer needs a dataset; give a CSV or Parquet file with --dataset"
                )
            ]
        )
    return choose_columns(data.load_table(path, target=str(config.option("target"))), config)


def _infer_task(columns: Columns, config: TrainingConfig) -> str:
    target = config.option("target")
    if not columns.classes:
        return f"task: regression, since {target!r} contains numbers (set task=classification to change it)"
    why = f"since {target!r} has {len(columns.classes)} different values"
    return f"task: classification, {why} (set task=regression to change it)"
