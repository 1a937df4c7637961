"""Create the estimator of each model and train it one epoch at a time."""

from __future__ import annotations

import copy
import importlib
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.tabular.boosting import LightGBMRounds, XGBoostRounds, first_rounds, rounds_of
from anygpu.trainers.tabular.settings import CLASSIFICATION, MODELS, OWN, TabularModel


def new_estimator(config: TrainingConfig, task: str) -> Any:
    """The estimator that is to learn."""
    model = MODELS[config.model]
    module, _, name = model.place(task).partition(":")
    given = {name: value for name, value in config.options.items() if name not in OWN}
    return getattr(importlib.import_module(module), name)(**estimator_settings(config, task, given))


def estimator_settings(config: TrainingConfig, task: str, given: dict[str, Any]) -> dict[str, Any]:
    """What the estimator is made with, by the framework's own names."""
    model = MODELS[config.model]
    rate = {} if config.learning_rate is None else {model.rate: config.learning_rate}
    return {**_ours(config, model, task), **_without_callbacks({**given, **rate})}


def _ours(config: TrainingConfig, model: TabularModel, task: str) -> dict[str, Any]:
    chance = {"random_state": config.seed}
    if model.epoch == "grow":
        return {**chance, "warm_start": True}
    if model.epoch == "iterate":
        return {**chance, "warm_start": True, "early_stopping": False}
    if model.epoch == "solve":
        return {**chance, **({"max_iter": 1000} if task == CLASSIFICATION else {})}
    if model.epoch == "xgboost":
        return {**chance, **({"device": config.device} if config.device.startswith("cuda") else {})}
    if model.epoch == "lightgbm":
        return {**chance, "deterministic": True, "force_row_wise": True, "verbose": -1}
    return {**chance, **_of_batches(config, task)}


def _of_batches(config: TrainingConfig, task: str) -> dict[str, Any]:
    if config.model == "mlp":
        return {"batch_size": config.batch_size}
    return {"loss": "log_loss"} if task == CLASSIFICATION else {}


def _without_callbacks(given: dict[str, Any]) -> dict[str, Any]:
    """`eta0` alone would be ignored by the default schedule; layers come as a list, or as 64,32."""
    if "eta0" in given:
        given = {"learning_rate": "invscaling", **given}
    layers = given.get("hidden_layer_sizes")
    if isinstance(layers, str):
        layers = [int(each) for each in layers.split(",")]
    return {**given, "hidden_layer_sizes": tuple(layers)} if isinstance(layers, list) else given


def by_rounds(model: TabularModel) -> Callable[..., None]:
    """What adds an epoch to a model that learns from all rows at once; one for each training."""
    if model.epoch == "xgboost":
        return XGBoostRounds()
    return LightGBMRounds() if model.epoch == "lightgbm" else partial(_epoch, model)


def _epoch(
    model: TabularModel, estimator: Any, inputs: Any, target: Any, *, number: int, rounds: int, seed: int
) -> None:
    """Epoch `number` (from 0): `rounds` trees or rounds more."""
    if model.epoch == "grow":
        estimator.set_params(n_estimators=(number + 1) * rounds).fit(inputs, target)
    elif model.epoch == "iterate":
        estimator.set_params(max_iter=(number + 1) * rounds).fit(inputs, target)
    elif model.epoch == "solve":
        estimator.fit(inputs, target)


def hold_estimator(model: TabularModel, estimator: Any) -> Callable[[], Any] | None:
    """What gives the estimator as it is now, however it grows until then; None where it does not grow."""
    if model.epoch in ("xgboost", "lightgbm"):
        kept = copy.copy(estimator)
        return partial(first_rounds, kept, rounds_of(kept))
    if model.epoch in ("grow", "iterate"):
        kept = _identity(estimator)
        return lambda: kept
    return None


def _identity(estimator: Any) -> Any:
    """A tree never changes once it is grown; lists of trees and generators of chance do."""
    import numpy

    kept = copy.copy(estimator)
    for name, value in list(vars(kept).items()):
        if isinstance(value, list):
            setattr(kept, name, list(value))
        elif isinstance(value, numpy.random.RandomState | numpy.random.Generator):
            setattr(kept, name, copy.deepcopy(value))
    return kept


def batch(estimator: Any, inputs: Any, target: Any, classes: Any) -> None:
    """One batch more of a model that learns in passes."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a batch is smaller than a batch
        if classes is None:
            estimator.partial_fit(inputs, target)
        else:
            estimator.partial_fit(inputs, target, classes=classes)


def in_units(estimator: Any, centre: float, scale: float) -> Any:
    """A copy that predicts in the target's own units: its last layer undoes what was done to the target."""
    done = copy.deepcopy(estimator)
    if hasattr(done, "coefs_"):
        done.coefs_[-1] = done.coefs_[-1] * scale
        done.intercepts_[-1] = done.intercepts_[-1] * scale + centre
    else:
        done.coef_ = done.coef_ * scale
        done.intercept_ = done.intercept_ * scale + centre
    return done
