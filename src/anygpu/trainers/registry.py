"""Find trainers by name: built-in trainers, trainers of installed packages, and classes in a user's file."""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.util
import re
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from typing import Any

from anygpu.suggest import did_you_mean
from anygpu.trainers.contract import AnyTrainer, PlannerHints
from anygpu.trainers.errors import NoSuchTrainer, TrainerError
from anygpu.trainers.plugins import adapt, install_import_alias, registry

ENTRY_POINTS = "anygpu.trainers"
# Class of each built-in trainer. Modules are imported only when the trainer is requested.
BUILT_IN = {
    "tabular": "anygpu.trainers.tabular.trainer:Tabular",
    "xgboost": "anygpu.trainers.tabular.trainer:XGBoost",
    "lightgbm": "anygpu.trainers.tabular.trainer:LightGBM",
    "nanogpt": "anygpu.trainers.nanogpt.trainer:NanoGpt",
    "torch-classifier": "anygpu.trainers.torch.classifier:TorchClassifier",
    "huggingface": "anygpu.trainers.huggingface.trainer:HuggingFace",
    "yolo": "anygpu.trainers.yolo.trainer:Yolo",
    "rtdetr": "anygpu.trainers.rtdetr.trainer:RtDetr",
    "rfdetr": "anygpu.trainers.rfdetr.trainer:RfDetr",
}
ALIASES = {
    "ultralytics": "yolo",
    "rt-detr": "rtdetr",
    "rf-detr": "rfdetr",
    "hf": "huggingface",
    "transformers": "huggingface",
    "classifier": "torch-classifier",
    "pytorch": "torch-classifier",
    "sklearn": "tabular",
    "scikit-learn": "tabular",
}

# Every module that a built-in trainer or a tracker may import. A constant, because a backend that lists its offers must
# not import all trainers.
FRAMEWORK_MODULES = (
    *(
        "PIL",
        "accelerate",
        "joblib",
        "lightgbm",
        "mlflow",
        "numpy",
        "onnx",
        "onnxmltools",
        "onnxruntime",
        "rfdetr",
    ),
    *("safetensors", "scipy", "skl2onnx", "sklearn", "tokenizers", "torch", "torchvision", "transformers"),
    *("ultralytics", "wandb", "xgboost"),
)
TRACKER_MODULES = {"mlflow": "mlflow", "wandb": "wandb"}  # TensorBoard files are written without a package

# Model names that select a trainer.
MODEL_NAMES = {
    "yolo": re.compile(r"yolo[-_]?v?\d+[a-z]?([-_](seg|cls|pose|det))?(\.pt|\.yaml)?"),
    "tabular": re.compile(r"random-forest|extra-trees|(hist-)?gradient-boosting|logistic-regression|ridge"),
    "torch-classifier": re.compile(
        r"(wide_)?resne[xs]?t\d\w*|efficientnet_\w+|mobilenet_v\d\w*|convnext_\w+|densenet\d+|vgg\d+\w*"
        r"|vit_[bhl]_\d+|swin_\w+|regnet_\w+|shufflenet_\w+|squeezenet\w+|mnasnet\w+|alexnet|googlenet|maxvit_t"
    ),
}


def find(name: str) -> type[AnyTrainer]:
    """Return the trainer class with this name.

    `name` is a built-in trainer (`yolo`), an entry point of an installed package, a registered plugin,
    or a class in a file (`./my_trainer.py:Mine`).
    """
    return as_trainer(load(name), name)


def load(name: str) -> object:
    """Import the trainer or model plugin with this name, as `find` describes, and return its class."""
    if ".py" in name:
        return _from_file(name)
    trainer, model = parse_name(name)
    if trainer:
        return _with_model(_import_attribute(BUILT_IN[trainer]), model)
    if name in registry.list_models():
        return registry.get_model(name)
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        if entry.name == name:
            return entry.load()
    raise NoSuchTrainer(f"there is no trainer {name!r}{_suggestion(name)}")


def is_built_in(name: str) -> bool:
    return bool(parse_name(name)[0])


def steps_grow(name: str, settings: Mapping[str, Any]) -> bool:
    """Return whether the later steps of a training with these settings take longer than the first ones.

    False for trainers that are not built in: the server must not run their code.
    """
    if not is_built_in(name):
        return False
    try:
        kind = find(name)
        return kind.grows(kind.parse_settings(settings))
    except (ImportError, TrainerError):
        return False


def defaults(name: str) -> Mapping[str, Any]:
    """Return the settings for which a built-in trainer has other defaults than TrainingConfig."""
    if not is_built_in(name):
        return {}
    try:
        return find(name).accepts.defaults
    except (ImportError, TrainerError):
        return {}


def dataset_format(name: str) -> str:
    """Return the data that a built-in trainer needs, such as "a CSV or Parquet file"; empty for other trainers."""
    return find(name).dataset_format if is_built_in(name) else ""


def modules_for(name: str, settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the modules that a built-in trainer imports with these settings, each with the extra that installs it.

    Empty for trainers that are not built in: the server must not run their code.
    """
    if not is_built_in(name):
        return {}
    try:
        kind = find(name)
        return kind.modules(kind.parse_settings(settings))
    except (ImportError, TrainerError):
        return {}


def missing_modules() -> frozenset[str]:
    """Return the modules of FRAMEWORK_MODULES that are not installed for this interpreter. Imports none of them."""
    return frozenset(each for each in FRAMEWORK_MODULES if importlib.util.find_spec(each) is None)


def can_use_several_gpus(name: str) -> bool:
    """Return whether a built-in trainer can use several GPUs. False for trainers that are not built in."""
    try:
        return is_built_in(name) and not find(name).single_gpu_reason
    except (ImportError, TrainerError):
        return False


def planner_hints(name: str) -> PlannerHints:
    """Return the planner hints of a built-in trainer.

    For trainers that are not built in, return the default hints: the server must not run their code.
    """
    if not is_built_in(name):
        return PlannerHints()
    try:
        return find(name).planner_hints
    except (ImportError, TrainerError):
        return PlannerHints()


@functools.cache
def declared_model_sizes() -> Mapping[str, int]:
    """Return the number of parameters of each model that a built-in trainer lists in its planner hints."""
    return {model: size for name in BUILT_IN for model, size in planner_hints(name).parameters.items()}


def parse_name(name: str) -> tuple[str, str]:
    """Return the built-in trainer and the model that `name` refers to; ("", "") if it is not built in.

    `name` is a trainer (`yolo`), a trainer and a model (`yolo/yolo11n`), or a model (`yolo11n`).
    The model is empty if the name does not contain one.
    """
    first, _, model = name.partition("/")
    built_in = ALIASES.get(first.lower(), first.lower())
    if built_in in BUILT_IN:
        return built_in, model
    named = (trainer for trainer, pattern in MODEL_NAMES.items() if pattern.fullmatch(name.lower()))
    trainer = next(named, "")
    return trainer, name if trainer else ""


def names() -> list[str]:
    return [*BUILT_IN, *sorted(entry.name for entry in metadata.entry_points(group=ENTRY_POINTS))]


def as_trainer(candidate: object, name: str) -> type[AnyTrainer]:
    if isinstance(candidate, type) and issubclass(candidate, AnyTrainer):
        return candidate
    adapter = adapt(candidate)
    if adapter is not None:
        return adapter
    raise NoSuchTrainer(
        f"{name} is {candidate!r}, which is not a trainer; name a subclass of anygpu.trainers.Trainer, or "
        "a class with the method train(train_loader, val_loader, callbacks)"
    )


def _with_model(candidate: object, model: str) -> object:
    """Return a subclass of the trainer `candidate` whose default model is `model`."""
    if not model or not (isinstance(candidate, type) and issubclass(candidate, AnyTrainer)):
        return candidate
    defaults = {**candidate.accepts.defaults, "model": model}
    return type(candidate.__name__, (candidate,), {"accepts": replace(candidate.accepts, defaults=defaults)})


def _import_attribute(place: str) -> object:
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _from_file(place: str) -> object:
    written, _, attribute = place.partition(":")
    path = Path(written)
    if not path.is_file():
        raise NoSuchTrainer(f"there is no file {written} in {Path.cwd()}; give the path of an existing file")
    if not attribute:
        raise NoSuchTrainer(
            f"{place} names no class; add the name of a class in the file, as in {written}:MyTrainer"
        )
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # its classes must be picklable for data loader processes
    sys.path.insert(0, str(path.resolve().parent))
    install_import_alias()
    spec.loader.exec_module(module)
    if hasattr(module, attribute):
        return getattr(module, attribute)
    if attribute in registry.list_models():
        return registry.get_model(attribute)
    has = [name for name, value in vars(module).items() if getattr(value, "__module__", "") == path.stem]
    close = difflib.get_close_matches(attribute, has, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else f"; it has {', '.join(has) or 'nothing'}"
    raise NoSuchTrainer(f"the file {written} has no class {attribute!r}{hint}")


def _suggestion(name: str) -> str:
    hint = did_you_mean(name, [*names(), *ALIASES])
    return f"; {hint}" if hint else f"; there are {', '.join(names())}"


_EXTRA = re.compile(r"""extra\s*==\s*['"]([A-Za-z0-9._-]+)['"]""")


def requirements_for(trainer: str, settings: Mapping[str, Any]) -> list[str]:
    """Return the packages (pip requirements) that a job's trainer needs with these settings.

    Empty for trainers that are not built in: the server must not run their code.
    """
    if not is_built_in(trainer):
        return []
    try:
        kind = find(trainer)
        extras = kind.extras(kind.parse_settings(settings))
    except (ImportError, TrainerError):
        return []
    return sorted({each for extra in extras for each in requirements_of(extra)})


@functools.cache
def requirements_of(extra: str) -> tuple[str, ...]:
    """Return the requirements of an anygpu extra, such as `("scikit-learn>=1.5", ...)`."""
    try:
        declared = metadata.requires("anygpu") or []
    except metadata.PackageNotFoundError:
        return ()
    return tuple(
        line.partition(";")[0].strip() for line in declared if extra in _EXTRA.findall(line.partition(";")[2])
    )
