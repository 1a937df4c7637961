"""Create the estimator (the object of scikit-learn, XGBoost or LightGBM) and train it epoch by epoch."""

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
    """Create the untrained estimator."""
    model = MODELS[config.model]
    module, _, name = model.place(task).partition(":")
    given = {name: value for name, value in config.options.items() if name not in OWN}
    return getattr(importlib.import_module(module), name)(**estimator_settings(config, task, given))


def estimator_settings(config: TrainingConfig, task: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return the constructor arguments of the estimator, under the framework's names."""
    model = MODELS[config.model]
    rate = {} if config.learning_rate is None else {model.rate: config.learning_rate}
    return {**_ours(config, model, task), **_sklearn_arguments({**given, **rate})}


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


def _sklearn_arguments(given: dict[str, Any]) -> dict[str, Any]:
    """Adapt settings to what scikit-learn expects.

    With `eta0`, the initial learning rate, a learning rate schedule that uses it is set. `hidden_layer_sizes`
    may be a list or text such as "64,32"; scikit-learn needs a tuple.
    """
    if "eta0" in given:
        given = {"learning_rate": "invscaling", **given}
    layers = given.get("hidden_layer_sizes")
    if isinstance(layers, str):
        layers = [int(each) for each in layers.split(",")]
    return {**given, "hidden_layer_sizes": tuple(layers)} if isinstance(layers, list) else given


def by_rounds(model: TabularModel) -> Callable[..., None]:
    """Return a function that trains one epoch on all rows. It may keep state, so use it for one training only."""
    if model.epoch == "xgboost":
        return XGBoostRounds()
    return LightGBMRounds() if model.epoch == "lightgbm" else partial(_epoch, model)


def _epoch(
    model: TabularModel, estimator: Any, inputs: Any, target: Any, *, number: int, rounds: int, seed: int
) -> None:
    """Train epoch `number` (0-based): add `rounds` trees or boosting rounds."""
    if model.epoch == "grow":
        estimator.set_params(n_estimators=(number + 1) * rounds).fit(inputs, target)
    elif model.epoch == "iterate":
        estimator.set_params(max_iter=(number + 1) * rounds).fit(inputs, target)
    elif model.epoch == "solve":
        estimator.fit(inputs, target)


def hold_estimator(model: TabularModel, estimator: Any) -> Callable[[], Any] | None:
    """Keep the estimator as it is now; return a function that returns it, even after further training.

    Return None for models that do not grow by adding trees.
    """
    if model.epoch in ("xgboost", "lightgbm"):
        kept = copy.copy(estimator)
        return partial(first_rounds, kept, rounds_of(kept))
    if model.epoch in ("grow", "iterate"):
        kept = _snapshot(estimator)
        return lambda: kept
    return None


def _snapshot(estimator: Any) -> Any:
    """Return a copy of the estimator. It shares the finished trees with the original: they never change.

    The lists of trees and the random generators do change, so they are copied.
    """
    import numpy

    kept = copy.copy(estimator)
    for name, value in list(vars(kept).items()):
        if isinstance(value, list):
            setattr(kept, name, list(value))
        elif isinstance(value, numpy.random.RandomState | numpy.random.Generator):
            setattr(kept, name, copy.deepcopy(value))
    return kept


def batch(estimator: Any, inputs: Any, target: Any, classes: Any) -> None:
    """Train the estimator on one batch of rows."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a batch smaller than batch_size
        if classes is None:
            estimator.partial_fit(inputs, target)
        else:
            estimator.partial_fit(inputs, target, classes=classes)


def in_units(estimator: Any, centre: float, scale: float) -> Any:
    """Return a copy of the estimator that predicts in the original units, if its target was normalised for training.

    The weights of the last layer are multiplied by `scale`, and `centre` is added to its intercept.
    """
    done = copy.deepcopy(estimator)
    if hasattr(done, "coefs_"):
        done.coefs_[-1] = done.coefs_[-1] * scale
        done.intercepts_[-1] = done.intercepts_[-1] * scale + centre
    else:
        done.coef_ = done.coef_ * scale
        done.intercept_ = done.intercept_ * scale + centre
    return done
