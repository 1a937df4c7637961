"""Public API for model plugins: the base class, the registry and the callbacks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar, overload

from anygpu.trainers.errors import NoSuchTrainer

__all__ = ["BaseModel", "Callbacks", "ModelRegistry", "registry"]

Model = TypeVar("Model", bound="type[Any]")


class Callbacks(Protocol):
    """Callbacks that a plugin calls to report metrics and checkpoints."""

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None: ...

    def on_checkpoint_save(self, epoch: int, path: str) -> None:
        """Report a checkpoint: `path` is the file or directory from which training can resume after `epoch`."""
        ...


class BaseModel(ABC):
    """Optional base class of model plugins: models with their own training loop.

    `config` has the job's settings, `num_classes`, `classes`, `output_dir`, and `resume_from` (the path of
    the checkpoint to resume from, or None).
    """

    def __init__(self, config: dict[str, Any]) -> None:
        self.config = config

    @abstractmethod
    def train(self, train_loader: Any, val_loader: Any, callbacks: Any = None) -> Any: ...


class ModelRegistry:
    """Registry of model plugins by name."""

    def __init__(self) -> None:
        self._models: dict[str, type[Any]] = {}

    @overload
    def register(self, name: str) -> Callable[[Model], Model]: ...
    @overload
    def register(self, name: str, model: Model) -> Model: ...
    @overload
    def register(self, name: Model) -> Model: ...
    def register(self, name: Any, model: Any = None) -> Any:
        """Register a plugin class.

        Use `@registry.register("mine")`, `@registry.register`, or `registry.register("mine", Mine)`.
        """
        if isinstance(name, type):
            return self.register(name.__name__, name)
        if model is None:
            return lambda decorated: self.register(name, decorated)
        self._models[name] = model
        return model

    register_model = register

    def get_model(self, name: str) -> type[Any]:
        """Return the class of a registered plugin, of an installed package, or of a file (`./my_model.py:MyModel`)."""
        if name in self._models:
            return self._models[name]
        from anygpu.trainers.registry import load  # imported here because it imports this module

        model = load(name)
        if not isinstance(model, type):
            raise NoSuchTrainer(
                f"{name} is {model!r}, which is not a class; give the name of a class with the method train"
            )
        return model

    def list_models(self) -> list[str]:
        return sorted(self._models)


registry = ModelRegistry()
