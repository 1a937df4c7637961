"""Trainers by name: the built-in ones, those of installed packages, and one in a file of yours."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from importlib import metadata
from pathlib import Path

from anygpu.trainers.contract import Trainer
from anygpu.trainers.errors import NoSuchTrainer
from anygpu.trainers.plugins import adapted, lend_names, registry

ENTRY_POINTS = "anygpu.trainers"
# Where each lives; nothing of it is imported before it is asked for.
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


def find(name: str) -> type[Trainer]:
    """`yolo`, a name of an installed package's, a registered plugin's, or `./my_trainer.py:Mine`."""
    return as_trainer(found(name), name)


def found(name: str) -> object:
    """What goes by this name, be it a trainer or a model plugin."""
    if ".py" in name:
        return _from_file(name)
    known = ALIASES.get(name.lower(), name.lower())
    if known in BUILT_IN:
        return _imported(BUILT_IN[known])
    if name in registry.list_models():
        return registry.get_model(name)
    for entry in metadata.entry_points(group=ENTRY_POINTS):
        if entry.name == name:
            return entry.load()
    raise NoSuchTrainer(f"there is no trainer {name!r}{_nearest(name)}")


def is_built_in(name: str) -> bool:
    return ALIASES.get(name.lower(), name.lower()) in BUILT_IN


def require_known(name: str) -> None:
    """NoSuchTrainer, with the nearest name, for one that is not here. Nothing of it is imported."""
    if not is_built_in(name) and name not in (*names(), *registry.list_models()):
        raise NoSuchTrainer(f"there is no trainer {name!r}{_nearest(name)}")


def names() -> list[str]:
    return [*BUILT_IN, *sorted(entry.name for entry in metadata.entry_points(group=ENTRY_POINTS))]


def as_trainer(found: object, name: str) -> type[Trainer]:
    if isinstance(found, type) and issubclass(found, Trainer):
        return found
    adapter = adapted(found)
    if adapter is not None:
        return adapter
    raise NoSuchTrainer(
        f"{name} is {found!r}, which is neither a Trainer (anygpu.trainers.Trainer) nor a model plugin:"
        " a class with train(train_loader, val_loader, callbacks)"
    )


def _imported(place: str) -> object:
    module, _, attribute = place.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _from_file(place: str) -> object:
    written, _, attribute = place.partition(":")
    path = Path(written)
    if not path.is_file():
        raise NoSuchTrainer(f"there is no file {written} (in {Path.cwd()})")
    if not attribute:
        raise NoSuchTrainer(f"{place}: say which class of the file, as in {written}:MyTrainer")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = (
        module  # so that what it defines can be pickled, and sent to data loader processes
    )
    sys.path.insert(0, str(path.resolve().parent))
    lend_names()
    spec.loader.exec_module(module)
    if hasattr(module, attribute):
        return getattr(module, attribute)
    if attribute in registry.list_models():
        return registry.get_model(attribute)
    raise NoSuchTrainer(f"{written} has no {attribute}")


def _nearest(name: str) -> str:
    known = [*names(), *ALIASES]
    close = difflib.get_close_matches(name.lower(), known, n=1)
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(names())}"
