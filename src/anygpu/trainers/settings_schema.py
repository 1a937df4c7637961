"""Describe the settings of a trainer as a JSON schema, from which forms are generated. Imports no framework."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.contract import AnyTrainer

Schema = dict[str, Any]

MILLION, LARGEST_SEED = 1_000_000, 2**32 - 1
# The settings that all trainers share, most used first. `make_config` checks the same bounds.
COMMON: Mapping[str, Schema] = {
    "model": {"type": "string", "description": "model of the framework"},
    "weights": {"type": "string", "description": "initial weights: a file or a name; empty: from scratch"},
    "task": {"type": "string", "description": "what the model learns to do"},
    "epochs": {
        "type": "integer",
        "minimum": 1,
        "maximum": MILLION,
        "description": "passes over the training data",
    },
    "batch_size": {"type": "integer", "minimum": 1, "maximum": MILLION, "description": "samples per step"},
    "image_size": {
        "type": "integer",
        "minimum": 8,
        "maximum": 16_384,
        "description": "width and height of the images in pixels",
    },
    "learning_rate": {
        "type": "number",
        "exclusiveMinimum": 0,
        "exclusiveMaximum": 1000,
        "description": "learning rate; empty: the default of the framework",
    },
    "optimizer": {"type": "string", "description": "optimizer"},
    "scheduler": {"type": "string", "description": "how the learning rate changes"},
    "patience": {
        "type": "integer",
        "minimum": 0,
        "description": "stop after this many epochs without improvement; 0: never",
    },
    "val_fraction": {
        "type": "number",
        "exclusiveMinimum": 0,
        "exclusiveMaximum": 1,
        "description": "part of the data for validation, if the dataset has no validation split",
    },
    "amp": {"type": "boolean", "description": "train in mixed precision"},
    "workers": {
        "type": "integer",
        "minimum": 0,
        "maximum": 1000,
        "description": "processes that load the data",
    },
    "seed": {"type": "integer", "minimum": 0, "maximum": LARGEST_SEED, "description": "random seed"},
    "device": {"type": "string", "description": "device to train on"},
    "export": {"type": "array", "items": {"type": "string"}, "description": "formats to export the model to"},
    "checkpoint_every_s": {
        "type": "number",
        "minimum": 0,
        "description": "seconds between checkpoints; empty: as often as 1 % of the time allows",
    },
}


def settings_schema(kind: type[AnyTrainer]) -> Schema:
    """Return a JSON schema of the settings that the trainer accepts under `config`."""
    defaults = {**asdict(TrainingConfig()), **kind.accepts.defaults}
    common = {
        name: _with_default(_with_choices(kind, name, schema), defaults[name])
        for name, schema in COMMON.items()
        if name not in kind.accepts.ignores
    }
    options = {name: _option_schema(kind, name) for name in _ordered_options(kind)}
    return {
        "type": "object",
        "properties": {**_required_first(kind, options), **common, **options},
        "required": list(kind.required_settings),
        "additionalProperties": kind.accepts.any_option,
    }


def _required_first(kind: type[AnyTrainer], options: Mapping[str, Schema]) -> dict[str, Schema]:
    return {name: options[name] for name in kind.required_settings if name in options}


def _ordered_options(kind: type[AnyTrainer]) -> list[str]:
    """Return the trainer's own options: those with a known default first, the others by name."""
    own = [name for name in kind.options if name in kind.accepts.options]
    return [*own, *sorted(kind.accepts.options - {*own})]


def _with_choices(kind: type[AnyTrainer], name: str, schema: Schema) -> Schema:
    accepts = kind.accepts
    choices = {"task": accepts.tasks, "optimizer": accepts.optimizers, "scheduler": accepts.schedulers}
    if choices.get(name):
        return {**schema, "enum": list(choices[name])}
    if name == "export" and accepts.exports:
        return {**schema, "items": {"type": "string", "enum": list(accepts.exports)}}
    if name == "model" and kind.known_models:
        return {**schema, ("examples" if kind.has_other_models else "enum"): list(kind.known_models)}
    return schema


def _with_default(schema: Schema, default: Any) -> Schema:
    """Return the schema with its default. None and an empty text mean that the trainer chooses: no default."""
    if default in (None, ""):
        return schema
    return {**schema, "default": list(default) if isinstance(default, tuple) else default}


def _option_schema(kind: type[AnyTrainer], name: str) -> Schema:
    option = kind.options.get(name)
    default = getattr(option, "default", option)
    if name in kind.option_schemas:
        return _with_default(dict(kind.option_schemas[name]), default)
    schema = {**_type_of(default), **_bounds(option, default)}
    about = getattr(option, "about", "")
    return _with_default({**schema, "description": about} if about else schema, default)


def _type_of(default: Any) -> Schema:
    """Return the type of an option; empty for an option without a default, which may have any type."""
    for python, name in ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string")):
        if isinstance(default, python):
            return {"type": name}
    return {}


def _bounds(option: Any, default: Any) -> Schema:
    if isinstance(default, bool) or not hasattr(option, "low"):
        return {}
    if isinstance(default, str):
        return {"enum": list(option.one_of)} if option.one_of else {}
    if not isinstance(default, int | float):
        return {}
    return {"minimum": option.low, **({} if option.high == math.inf else {"maximum": option.high})}
