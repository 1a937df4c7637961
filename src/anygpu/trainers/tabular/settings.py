"""Settings of the tabular trainer: its own options, and the settings of each model.

No framework is imported here, so that settings can be checked where none is installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anygpu.suggest import did_you_mean
from anygpu.trainers.config import Accepts, TrainingConfig
from anygpu.trainers.errors import BadConfig

CLASSIFICATION, REGRESSION = "classification", "regression"
TASKS = (CLASSIFICATION, REGRESSION)
# The trainer's own options and their defaults. `target` is required; `features` defaults to all columns.
OPTIONS: Mapping[str, Any] = {
    "target": None,
    "features": None,
    "drop": None,
    "test_fraction": 0.0,
    "rounds": 1,
    "max_categories": 100,
}
OWN = frozenset(OPTIONS)
_COLUMNS: Mapping[str, Any] = {"type": "array", "items": {"type": "string"}}
OPTION_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "target": {"type": "string", "minLength": 1, "description": "column to predict"},
    "features": {**_COLUMNS, "description": "columns to learn from; empty: all others"},
    "drop": {**_COLUMNS, "description": "columns to leave out"},
    "test_fraction": {
        "type": "number",
        "minimum": 0,
        "exclusiveMaximum": 1,
        "description": "part of the rows that is used only for the test scores",
    },
    "rounds": {"type": "integer", "minimum": 1, "description": "trees or boosting rounds in each epoch"},
    "max_categories": {
        "type": "integer",
        "minimum": 1,
        "description": "most different values of a text column that is used",
    },
}

_TREE = (
    "max_depth min_samples_split min_samples_leaf max_features max_leaf_nodes min_impurity_decrease criterion"
)
_FOREST = f"{_TREE} bootstrap max_samples class_weight n_jobs"
_LINEAR = "alpha penalty l1_ratio class_weight"


@dataclass(frozen=True, kw_only=True)
class TabularModel:
    """A type of model: its scikit-learn style classes, how an epoch trains it, and the settings it accepts."""

    classifier: str = ""  # module:Class; empty: not supported
    regressor: str = ""
    epoch: str = "grow"  # how an epoch trains it: see `estimators`
    settings: str = ""
    rate: str = ""  # name of the learning rate setting; empty: none
    is_scaled: bool = False  # needs normalised features
    is_forest: bool = False  # independent trees whose predictions are averaged
    module: str = "sklearn"
    extra: str = "tabular"

    def place(self, task: str) -> str:
        return self.classifier if task == CLASSIFICATION else self.regressor


def _ensemble(
    name: str, settings: str, *, epoch: str = "grow", rate: str = "", is_forest: bool = False
) -> TabularModel:
    return TabularModel(
        classifier=f"sklearn.ensemble:{name}Classifier",
        regressor=f"sklearn.ensemble:{name}Regressor",
        epoch=epoch,
        settings=settings,
        rate=rate,
        is_forest=is_forest,
    )


def _boosting(module: str, name: str, settings: str) -> TabularModel:
    return TabularModel(
        classifier=f"{module}:{name}Classifier",
        regressor=f"{module}:{name}Regressor",
        epoch=module,
        settings=settings,
        rate="learning_rate",
        module=module,
        extra="boosting",
    )


MODELS: Mapping[str, TabularModel] = {
    "random-forest": _ensemble("RandomForest", _FOREST, is_forest=True),
    "extra-trees": _ensemble("ExtraTrees", _FOREST, is_forest=True),
    "gradient-boosting": _ensemble("GradientBoosting", f"{_TREE} subsample loss", rate="learning_rate"),
    "hist-gradient-boosting": _ensemble(
        "HistGradientBoosting",
        epoch="iterate",
        settings="max_depth max_leaf_nodes min_samples_leaf l2_regularization max_bins max_features class_weight loss",
        rate="learning_rate",
    ),
    "logistic-regression": TabularModel(
        classifier="sklearn.linear_model:LogisticRegression",
        epoch="solve",
        settings="C solver class_weight max_iter tol l1_ratio",
        is_scaled=True,
    ),
    "ridge": TabularModel(
        regressor="sklearn.linear_model:Ridge", epoch="solve", settings="alpha solver tol", is_scaled=True
    ),
    "sgd": TabularModel(
        classifier="sklearn.linear_model:SGDClassifier",
        regressor="sklearn.linear_model:SGDRegressor",
        epoch="batches",
        settings=f"{_LINEAR} power_t",
        rate="eta0",
        is_scaled=True,
    ),
    "mlp": TabularModel(
        classifier="sklearn.neural_network:MLPClassifier",
        regressor="sklearn.neural_network:MLPRegressor",
        epoch="batches",
        settings="hidden_layer_sizes activation alpha beta_1 beta_2 epsilon",
        rate="learning_rate_init",
        is_scaled=True,
    ),
    "xgboost": _boosting(
        "xgboost",
        "XGB",
        "max_depth max_leaves min_child_weight gamma subsample colsample_bytree colsample_bylevel reg_alpha "
        "reg_lambda max_bin grow_policy scale_pos_weight n_jobs",
    ),
    "lightgbm": _boosting(
        "lightgbm",
        "LGBM",
        "max_depth num_leaves min_child_samples min_child_weight min_split_gain subsample subsample_freq "
        "colsample_bytree reg_alpha reg_lambda class_weight n_jobs",
    ),
}
# Fractions of rows or columns that are sampled at random.
SHARES = ("subsample", "colsample_bytree", "colsample_bylevel")
DEFAULT_MODEL = "hist-gradient-boosting"

ACCEPTS = Accepts(
    tasks=TASKS,
    options=OWN | {name for model in MODELS.values() for name in model.settings.split()},
    exports=("onnx",),
    ignores=frozenset({"weights", "image_size", "optimizer", "scheduler", "amp", "workers"}),
    defaults={"model": DEFAULT_MODEL, "epochs": 100, "batch_size": 256},
)


def check(config: TrainingConfig) -> None:
    """Check the target, the fractions, and that the model supports the given settings and task.

    Raise one BadConfig that lists every problem.
    """
    trouble = [*_unknown_model(config), *_no_target(config), *_fractions(config)]
    model = MODELS.get(config.model)
    if model is not None:
        trouble += [*_misplaced_setting_problems(config, model), *_wrong_task(config, model)]
    if trouble:
        raise BadConfig("\n".join(trouble))


def steps_grow(config: TrainingConfig) -> bool:
    """Return whether each epoch evaluates all earlier trees, so that steps take longer and longer.

    True for scikit-learn's boosting, and for XGBoost and LightGBM with random sampling.
    """
    model = MODELS[config.model]
    if model.module != "sklearn":
        return uses_randomness([config.options.get(name) for name in SHARES])
    return model.epoch in ("grow", "iterate") and not model.is_forest


def uses_randomness(shares: Sequence[Any]) -> bool:
    """Return whether any of these sampling fractions is below 1. A fraction is None if it is not set."""
    return any(isinstance(share, int | float) and share < 1 for share in shares)


def _unknown_model(config: TrainingConfig) -> list[str]:
    if config.model in MODELS:
        return []
    hint = did_you_mean(config.model, MODELS) or f"there are {', '.join(MODELS)}"
    return [f"model: there is no model {config.model!r}; {hint}"]


def _no_target(config: TrainingConfig) -> list[str]:
    target = config.option("target")
    if isinstance(target, str) and target:
        return []
    return ["target: is missing; set it to the name of the column to predict"]


def _fractions(config: TrainingConfig) -> list[str]:
    try:
        test = float(config.option("test_fraction", 0))
        fits = 0 <= test < 1 and test + config.val_fraction < 1
    except (TypeError, ValueError):
        fits = False
    wrong = [] if fits else ["test_fraction: has to be at least 0, and below 1 together with val_fraction"]
    counts = {name: config.option(name, 1) for name in ("rounds", "max_categories")}
    return wrong + [
        f"{name}: {value!r} is not a whole number above 0"
        for name, value in counts.items()
        if isinstance(value, bool) or not isinstance(value, int) or value < 1
    ]


def _misplaced_setting_problems(config: TrainingConfig, model: TabularModel) -> list[str]:
    allowed = {*OWN, *model.settings.split()}
    problems = [
        f"{name}: model {config.model!r} has no such setting; it has {', '.join(sorted(allowed - OWN))}"
        for name in config.options
        if name not in allowed
    ]
    if config.learning_rate is not None and not model.rate:
        problems.append(f"learning_rate: model {config.model!r} does not have this setting; remove it")
    return problems


def _wrong_task(config: TrainingConfig, model: TabularModel) -> list[str]:
    if not config.task or config.task not in TASKS or model.place(config.task):
        return []
    able = [name for name, each in MODELS.items() if each.place(config.task)]
    return [
        f"task: model {config.model!r} does not support {config.task}; these models do: {', '.join(able)}"
    ]
