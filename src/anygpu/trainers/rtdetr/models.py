"""Names of the RT-DETR sizes, and creation of the models with transformers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anygpu.suggest import did_you_mean
from anygpu.trainers.errors import BadConfig

DEFAULT = "rtdetr-r18"
# Sizes in the RT-DETR paper (Zhao et al. 2024).
PARAMETERS = {
    "rtdetr-r18": 20_000_000,
    "rtdetr-r34": 31_000_000,
    "rtdetr-r50": 42_000_000,
    "rtdetr-r101": 76_000_000,
}
BASIC = {"hidden_sizes": [64, 128, 256, 512], "layer_type": "basic"}
SMALL_HEAD = {"encoder_in_channels": [128, 256, 512], "hidden_expansion": 0.5}
# size -> (backbone config, other config). r18 to r101 are published sizes; tiny is for tests on a CPU.
SIZES: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "tiny": (
        {
            "embedding_size": 16,
            "hidden_sizes": [16, 32, 64, 128],
            "depths": [1, 1, 1, 1],
            "layer_type": "basic",
        },
        {
            "encoder_in_channels": [32, 64, 128],
            "encoder_hidden_dim": 64,
            "encoder_ffn_dim": 128,
            "encoder_attention_heads": 4,
            "d_model": 64,
            "decoder_in_channels": [64, 64, 64],
            "decoder_ffn_dim": 128,
            "decoder_attention_heads": 4,
            "decoder_layers": 2,
            "num_denoising": 20,
            "hidden_expansion": 0.5,
        },
    ),
    "r18": ({**BASIC, "depths": [2, 2, 2, 2]}, {**SMALL_HEAD, "decoder_layers": 3}),
    "r34": ({**BASIC, "depths": [3, 4, 6, 3]}, {**SMALL_HEAD, "decoder_layers": 4}),
    "r50": ({"depths": [3, 4, 6, 3]}, {}),
    "r101": (
        {"depths": [3, 4, 23, 3]},
        {"encoder_hidden_dim": 384, "encoder_ffn_dim": 2048, "decoder_in_channels": [384, 384, 384]},
    ),
}
NAMES = tuple(f"{family}-{size}" for family in ("rtdetr", "rtdetrv2") for size in SIZES)


def normalize_name(spelled: str) -> str:
    """Normalise a model name: `RT-DETR_r18vd` becomes `rtdetr-r18`."""
    plain = spelled.lower().replace("rt-detr", "rtdetr").replace("_", "-").replace("vd", "")
    plain = plain.replace("rtdetr-v2", "rtdetrv2")
    name = f"{plain}-r18" if plain in ("rtdetr", "rtdetrv2") else plain
    if name not in NAMES:
        hint = did_you_mean(name, NAMES) or f"there are {', '.join(NAMES)}"
        raise BadConfig(f"model: there is no model {spelled!r}; {hint}")
    return name


def create(name: str, classes: tuple[str, ...], weights: str, queries: int) -> Any:
    """Create a model with the weights of a folder or hub name; if `weights` is empty, with random weights."""
    import transformers

    second = name.startswith("rtdetrv2")
    kind = transformers.RTDetrV2ForObjectDetection if second else transformers.RTDetrForObjectDetection
    labels = dict(enumerate(classes))
    if weights:
        return _from(kind, weights, id2label=labels, label2id={each: n for n, each in labels.items()})
    return _init_weights(kind(_config(transformers, name, second, labels, queries)))


def _init_weights(network: Any) -> Any:
    """Initialise the norms and convolutions of a network that trains from scratch.

    transformers initialises norms near zero. Without pretrained weights, such a network would not learn.
    """
    import torch

    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d | torch.nn.LayerNorm):
            module.reset_parameters()
        elif isinstance(module, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    return network


def _config(transformers: Any, name: str, second: bool, labels: Mapping[int, str], queries: int) -> Any:
    backbone, rest = SIZES[name.partition("-")[2]]
    kind = transformers.RTDetrV2Config if second else transformers.RTDetrConfig
    return kind(
        backbone_config=transformers.RTDetrResNetConfig(
            **backbone, out_features=["stage2", "stage3", "stage4"]
        ),
        # A new backbone has no learned batch normalisation statistics to freeze.
        freeze_backbone_batch_norms=False,
        initializer_range=rest.get("d_model", 256) ** -0.5,
        num_queries=queries,
        id2label=dict(labels),
        label2id={each: number for number, each in labels.items()},
        **rest,
    )


def _from(kind: Any, weights: str, **labels: Any) -> Any:
    try:
        return kind.from_pretrained(weights, ignore_mismatched_sizes=True, **labels)
    except OSError as error:
        where = (
            "no such folder"
            if Path(weights).parent != Path()
            else "neither a folder nor available for download"
        )
        raise BadConfig(
            f"weights: {weights!r} is {where}; give the path of a folder or the name of published weights: "
            f"{str(error).splitlines()[0]}"
        ) from error
