"""Create image classifiers by name: a small CNN, or a torchvision or timm model if installed."""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from anygpu.trainers.errors import BadConfig, MissingExtra
from anygpu.trainers.torch.settings import SMALL

MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # ImageNet statistics


class NormalizedModel(nn.Module):  # type: ignore[misc]
    """Wraps a network and normalises its input, so that an exported model takes images with values from 0 to 1."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("mean", torch.tensor(MEAN).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("spread", torch.tensor(SPREAD).view(1, 3, 1, 1), persistent=False)

    def forward(self, images: Any) -> Any:
        answer = self.network((images - self.mean) / self.spread)
        # Some models also return auxiliary outputs.
        return answer if isinstance(answer, torch.Tensor) else answer[0]


def small_cnn(classes: int, width: int = 16) -> nn.Module:
    """Return a CNN of four convolution blocks, for simple images and first tests."""
    widths = [3, width, 2 * width, 4 * width, 8 * width]
    blocks = [_block(before, after) for before, after in itertools.pairwise(widths)]
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(widths[-1], classes))


def _block(before: int, after: int) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
    )


def create(name: str, classes: int, weights: str) -> tuple[nn.Module, frozenset[str]]:
    """Create the network `name`. Return it with the names of the parameters loaded from `weights`."""
    if name == SMALL:
        return _load_state(small_cnn(classes), _from_file(weights) if weights else {})
    if _has_module("torchvision") and name in _torchvision().list_models():
        return _load_state(
            _torchvision().get_model(name, num_classes=classes), _of_torchvision(name, weights)
        )
    if _has_module("timm"):
        return _load_state(_of_timm(name, classes), _weights_of_timm(name, weights))
    if not _has_module("torchvision"):
        raise MissingExtra("torch-classifier", "torchvision (or timm)", "torch")
    raise BadConfig(
        f"model: {name!r} is neither {SMALL} nor a model of torchvision; correct the name, or install "
        "timm, which has more models"
    )


def _of_torchvision(name: str, weights: str) -> dict[str, Any]:
    if not weights or Path(weights).is_file():
        return _from_file(weights) if weights else {}
    try:
        pretrained = _torchvision().get_model_weights(name)[weights.rpartition(".")[2]]
    except KeyError:
        available = ", ".join(each.name for each in _torchvision().get_model_weights(name))
        raise BadConfig(
            f"weights: {weights!r} is neither a file nor weights of torchvision; those for {name} are "
            f"{available}"
        ) from None
    with _pretrained_file(weights):
        return dict(pretrained.get_state_dict())


def _of_timm(name: str, classes: int) -> nn.Module:
    import timm

    if not timm.is_model(name):
        raise BadConfig(
            f"model: {name!r} is neither {SMALL} nor a model of torchvision or timm; correct the name"
        )
    return timm.create_model(name, num_classes=classes)


def _weights_of_timm(name: str, weights: str) -> dict[str, Any]:
    import timm

    if not weights or Path(weights).is_file():
        return _from_file(weights) if weights else {}
    base = name.partition(".")[0]
    tagged = name if weights in ("pretrained", "DEFAULT") else f"{base}.{weights}"
    if not timm.is_model_pretrained(tagged):
        available = ", ".join(timm.list_pretrained(base)) or "none"
        raise BadConfig(
            f"weights: {weights!r} is neither a file nor weights of timm; those for {base} are {available}"
        )
    with _pretrained_file(weights):
        return dict(timm.create_model(tagged, pretrained=True).state_dict())


@contextlib.contextmanager
def _pretrained_file(weights: str) -> Iterator[None]:
    """Context manager that raises BadConfig if pretrained weights cannot be downloaded inside it."""
    try:
        yield
    except OSError as error:
        raise BadConfig(
            f"weights: {weights!r} cannot be downloaded ({error}); set `weights` to a file, or remove it to "
            "train from random weights"
        ) from error


def _from_file(place: str) -> dict[str, Any]:
    if not Path(place).is_file():
        raise BadConfig(f"weights: there is no file {place}; give an existing file, or remove weights")
    if place.endswith(".safetensors"):
        from safetensors.torch import load_file

        return dict(load_file(place))
    state = torch.load(place, map_location="cpu", weights_only=True)
    return dict(state.get("state_dict", state))


def _load_state(network: nn.Module, weights: dict[str, Any]) -> tuple[nn.Module, frozenset[str]]:
    """Load the weights whose name and shape match, and return the network and their names.

    A classification head for another number of classes does not match and keeps its random weights.
    """
    own = network.state_dict()
    fitting = {
        name: value for name, value in weights.items() if name in own and own[name].shape == value.shape
    }
    if weights and not fitting:
        raise BadConfig(
            "weights: no tensor has a name and shape of this model; give weights of the same model"
        )
    network.load_state_dict({**own, **fitting})
    return network, frozenset(fitting)


def freeze(network: nn.Module, loaded: frozenset[str]) -> None:
    """Freeze the parameters named in `loaded`, so that only the new ones are trained."""
    for name, parameter in network.named_parameters():
        parameter.requires_grad_(name not in loaded)
    if not any(each.requires_grad for each in network.parameters()):
        raise BadConfig(
            "freeze: the weights match every layer, including the classification head, so no layer would be trained;"
            " remove freeze"
        )


def train_mode(network: nn.Module) -> None:
    """Set the network to training mode, except for modules whose parameters are all frozen.

    In training mode, the batch normalisation statistics of these modules would change.
    """
    network.train()
    for module in network.modules():
        parameters = list(module.parameters())
        if parameters and not any(each.requires_grad for each in parameters):
            module.eval()


def _has_module(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _torchvision() -> Any:
    import torchvision

    return torchvision.models
