"""Generate the script for the tabular trainer, which uses scikit-learn, XGBoost or LightGBM directly."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.errors import BadConfig
from anygpu.trainers.scripts.templates import PROGRESS, fill
from anygpu.trainers.tabular import columns, estimators
from anygpu.trainers.tabular.settings import CLASSIFICATION, MODELS, OWN, TabularModel

TEMPLATE = '''\
"""Trains {MODEL!t} to predict {TARGET!t} from a table. Needs: pip install {PACKAGES!t}

    python train.py [table.csv]     writes outputs/model.joblib: joblib.load(path).predict(rows)
"""

import csv
import json
import sys
from pathlib import Path

import joblib
import numpy
from sklearn import metrics
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from {MODULE!t} import {CLASS!t}

DATASET = sys.argv[1] if len(sys.argv) > 1 else {DATASET}
TARGET, FEATURES, DROP = {TARGET}, {FEATURES}, {DROP}
EPOCHS, ROUNDS, BATCH_SIZE = {EPOCHS!t}, {ROUNDS!t}, {BATCH_SIZE!t}  # an epoch: ROUNDS trees, or all rows once
VAL_FRACTION, SEED = {VAL_FRACTION!t}, {SEED!t}
SETTINGS = {SETTINGS}
ABSENT = {{"", "na", "n/a", "nan", "null", "none", "?"}}
OUTPUT = Path("outputs")


{PROGRESS!t}

def number(text):
    """The text as a float: NaN for a missing value, None if it is not a number."""
    if text.strip().lower() in ABSENT:
        return numpy.nan
    try:
        return float(text)
    except ValueError:
        return None


def read():
    """The rows as an array of objects, the target, and the positions of the numeric columns."""
    with open(DATASET, newline="", encoding="utf-8-sig") as file:
        names, *rows = [row for row in csv.reader(file) if row]
    at = names.index(TARGET)
    rows = [row for row in rows if row[at].strip().lower() not in ABSENT]
    kept = [name for name in FEATURES or names if name != TARGET and name not in DROP]
    table = numpy.empty((len(rows), len(kept)), dtype=object)
    numeric = []
    for place, name in enumerate(kept):
        texts = [row[names.index(name)] for row in rows]
        numbers = [number(text) for text in texts]
        if None not in numbers:
            numeric.append(place)
        table[:, place] = numbers if None not in numbers else [text.strip() for text in texts]
    return table, {READ_TARGET!t}, numeric


def preprocessing(table, numeric):
    others = [place for place in range(table.shape[1]) if place not in numeric]
    filled = SimpleImputer(strategy="median", keep_empty_features=True)
    steps = [("numbers", {NUMBERS!t}, numeric)] if numeric else []
    if others:
        categories = OneHotEncoder(handle_unknown="ignore", sparse_output=False)
        steps.append(("categories", categories, others))
    return ColumnTransformer(steps)


def epoch_of(model, inputs, target, epoch):
{EPOCH_OF!t}

def measured(model, inputs, target):
{MEASURED!t}

def main():
    table, target, numeric = read()
    {NAMES!t}
    rows, val_rows, target, val_target = train_test_split(
        table, target, test_size=VAL_FRACTION, random_state=SEED{STRATIFY!t}
    )
    columns = preprocessing(table, numeric).fit(rows)
    inputs, val_inputs = columns.transform(rows), columns.transform(val_rows)
    model = {CLASS!t}(**SETTINGS)
    for epoch in range(EPOCHS):
        epoch_of(model, inputs, target, epoch)
        progress(epoch=epoch + 1, total_epochs=EPOCHS, **measured(model, val_inputs, val_target))
    OUTPUT.mkdir(exist_ok=True)
    joblib.dump(Pipeline([("columns", columns), ("model", model)]), OUTPUT / "model.joblib")


if __name__ == "__main__":
    main()
'''

GROW = "    model.set_params(n_estimators=(epoch + 1) * ROUNDS).fit(inputs, target)\n"
ITERATE = "    model.set_params(max_iter=(epoch + 1) * ROUNDS).fit(inputs, target)\n"
SOLVE = "    model.fit(inputs, target)\n"
BATCHES = """\
    order = numpy.random.default_rng([SEED, epoch]).permutation(len(target))
    for start in range(0, len(order), BATCH_SIZE):
        rows = order[start : start + BATCH_SIZE]
        model.partial_fit(inputs[rows], target[rows]{CLASSES})
"""
XGBOOST = """\
    before = model.get_booster() if epoch else None
    model.set_params(n_estimators=ROUNDS).fit(inputs, target, xgb_model=before)
"""
LIGHTGBM = """\
    before = model.booster_ if epoch else None
    model.set_params(n_estimators=ROUNDS).fit(inputs, target, init_model=before)
"""
EPOCHS = {"grow": GROW, "iterate": ITERATE, "solve": SOLVE, "xgboost": XGBOOST, "lightgbm": LIGHTGBM}
OF_CLASSES = """\
    probabilities = model.predict_proba(inputs)
    guess = model.classes_[probabilities.argmax(axis=1)]
    return {
        "accuracy": float((guess == target).mean()),
        "f1": float(metrics.f1_score(target, guess, average="macro")),
        "log_loss": float(metrics.log_loss(target, probabilities, labels=model.classes_)),
    }
"""
OF_NUMBERS = """\
    predicted = model.predict(inputs)
    return {
        "rmse": float(numpy.sqrt(((predicted - target) ** 2).mean())),
        "mae": float(numpy.abs(predicted - target).mean()),
        "r2": float(metrics.r2_score(target, predicted)),
    }
"""
PACKAGES = {"sklearn": "scikit-learn", "xgboost": "scikit-learn xgboost", "lightgbm": "scikit-learn lightgbm"}


def write_script(config: TrainingConfig, dataset: str) -> str:
    model, task = MODELS[config.model], _task(config, dataset)
    is_classes = task == CLASSIFICATION
    module, _, kind = model.place(task).partition(":")
    if not kind:
        raise BadConfig(
            f"task: the model {config.model!r} cannot do {task}; set another model or another task"
        )
    return fill(
        TEMPLATE,
        MODEL=config.model,
        MODULE=module,
        CLASS=kind,
        PACKAGES=PACKAGES[model.module],
        DATASET=dataset or "table.csv",
        TARGET=config.option("target"),
        FEATURES=columns.split_list(config.option("features")),
        DROP=columns.split_list(config.option("drop")),
        EPOCHS=1 if model.epoch == "solve" else config.epochs,
        ROUNDS=config.option("rounds", 1),
        BATCH_SIZE=config.batch_size,
        VAL_FRACTION=config.val_fraction,
        SEED=config.seed,
        SETTINGS=_settings(config, task),
        PROGRESS=PROGRESS,
        READ_TARGET=_target(is_classes),
        NUMBERS="make_pipeline(filled, StandardScaler())" if model.is_scaled else "filled",
        EPOCH_OF=_epoch(model, is_classes),
        MEASURED=OF_CLASSES if is_classes else OF_NUMBERS,
        NAMES=_names(model, is_classes),
        STRATIFY=", stratify=target" if is_classes else "",
    )


def _task(config: TrainingConfig, dataset: str) -> str:
    """Return the configured task. If none is set, derive it from the table, which then must be a local file."""
    if config.task:
        return config.task
    if not Path(dataset).exists() or not dataset:
        raise BadConfig(
            "task: set classification or regression; it cannot be found from the data, because the table is "
            "not a file on this computer"
        )
    from anygpu.trainers.tabular.trainer import read

    return read(Path(dataset), config).task


def _settings(config: TrainingConfig, task: str) -> dict[str, Any]:
    given = {name: value for name, value in config.options.items() if name not in OWN}
    return estimators.estimator_settings(config, task, given)


def _target(is_classes: bool) -> str:
    kind = "str" if is_classes else "float"
    return f"numpy.array([{kind}(row[at].strip()) for row in rows])"


def _epoch(model: TabularModel, is_classes: bool) -> str:
    if model.epoch != "batches":
        return EPOCHS[model.epoch]
    return BATCHES.replace("{CLASSES}", ", classes=numpy.unique(target)" if is_classes else "")


def _names(model: TabularModel, is_classes: bool) -> str:
    """Return the lines of the script that encode the classes for XGBoost, or print the number of rows otherwise."""
    if model.module != "xgboost" or not is_classes:
        return 'print(f"{len(table)} rows", file=sys.stderr)'
    return (
        "names, target = numpy.unique(target, return_inverse=True)\n"
        '    print("classes:", *(f"{code} is {name}" for code, name in enumerate(names)), file=sys.stderr)'
    )
