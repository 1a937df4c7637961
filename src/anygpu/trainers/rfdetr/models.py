"""Names and licences of the RF-DETR sizes, and creation of the models with Roboflow's package."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anygpu.suggest import did_you_mean
from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.errors import BadConfig, MissingExtra

DEFAULT = "rfdetr-nano"
# Sizes according to RF-DETR's own page; to be checked.
PARAMETERS = {"rfdetr-nano": 30_500_000, "rfdetr-small": 32_100_000, "rfdetr-medium": 33_700_000}
ACCEPTS_PML = "accept_pml_licence"
# model -> (class in Roboflow's package, default image size in pixels)
FREE: Mapping[str, tuple[str, int]] = {
    "rfdetr-nano": ("RFDETRNanoConfig", 384),
    "rfdetr-small": ("RFDETRSmallConfig", 512),
    "rfdetr-medium": ("RFDETRMediumConfig", 576),
    "rfdetr-large": ("RFDETRLargeConfig", 704),
}
RESTRICTED: Mapping[str, tuple[str, int]] = {
    "rfdetr-xlarge": ("RFDETRXLarge", 700),
    "rfdetr-2xlarge": ("RFDETR2XLarge", 880),
}
SHORT = {"n": "nano", "s": "small", "m": "medium", "l": "large", "xl": "xlarge", "2xl": "2xlarge"}
SQUARES = 32  # image sizes must be multiples of this: windows of 2 patches of 16 pixels


def normalize_name(spelled: str) -> str:
    """Normalise a model name: `RF-DETR-N` and `rf_detr_nano` become `rfdetr-nano`."""
    plain = spelled.lower().replace("_", "-").replace("rf-detr", "rfdetr").removesuffix(".pth")
    plain = DEFAULT if plain == "rfdetr" else plain
    family, _, size = plain.partition("-")
    name = f"{family}-{SHORT.get(size, size)}"
    names = [*FREE, *RESTRICTED]
    if name not in names:
        hint = did_you_mean(name, names) or f"there are {', '.join(names)}"
        raise BadConfig(f"model: there is no model {spelled!r}; {hint}")
    return name


def check_licence(config: TrainingConfig) -> None:
    name = normalize_name(config.model)
    if name in RESTRICTED and not config.option(ACCEPTS_PML, False):
        raise BadConfig(
            f"model: {name} has Roboflow's PML-1.0 licence, which is not open and ties the model to their platform;"
            f" set {ACCEPTS_PML}: true to accept it. The sizes up to rfdetr-large are Apache-2.0"
        )


def default_image_size(model: str) -> int:
    return {**FREE, **RESTRICTED}[normalize_name(model)][1]


def create(config: TrainingConfig, classes: int, size: int, options: Mapping[str, Any]) -> tuple[Any, Any]:
    """Create the network and its criterion (the loss function).

    Training starts from scratch unless the setting `weights` is given. Only then are weights downloaded.
    """
    from rfdetr.models.lwdetr import build_criterion_from_config, build_model_from_config
    from rfdetr.models.weights import load_pretrain_weights

    wanted = {
        "pretrain_weights": _weights(config.weights),
        "num_classes": classes,
        "resolution": size,
        "device": "cpu",
        "num_queries": options["queries"],
        "num_select": options["queries"],
        "group_detr": options["groups"],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it warns about training from scratch, which is intended
        made = _kind(normalize_name(config.model))(**wanted)
        network = build_model_from_config(made)
        load_pretrain_weights(network, made)
    return network, build_criterion_from_config(made, _train_config())[0]


def _kind(name: str) -> Any:
    from rfdetr import config

    if name in FREE:
        return getattr(config, FREE[name][0])
    try:
        from rfdetr.platform import models
    except ImportError:
        raise MissingExtra("rfdetr", "rfdetr_plus", "rfdetr-plus") from None
    return getattr(models, RESTRICTED[name][0])._model_config_class


def _train_config() -> Any:
    from rfdetr.config import TrainConfig

    return TrainConfig(dataset_dir=".", output_dir=".")


def _weights(given: str) -> str | None:
    """Return the weights to load, or None to train from scratch.

    `given` is a local file, or a name such as rf-detr-nano.pth that Roboflow's package downloads.
    """
    if given and Path(given).parent != Path() and not Path(given).is_file():
        raise BadConfig(
            f"weights: there is no file {given}; give an existing file or a name such as rf-detr-nano.pth"
        )
    return given or None
