"""Model plugins: classes with a method `train(train_loader, val_loader, callbacks)`.

Example:

    from anygpu.trainers.plugins import BaseModel, registry

    @registry.register("mine")
    class Mine(BaseModel):
        def train(self, train_loader, val_loader, callbacks): ...
"""

from anygpu.trainers.plugins.adapter import PluginTrainer, adapt
from anygpu.trainers.plugins.base import BaseModel, Callbacks, ModelRegistry, registry
from anygpu.trainers.plugins.import_alias import install_import_alias

__all__ = [
    "BaseModel",
    "Callbacks",
    "ModelRegistry",
    "PluginTrainer",
    "adapt",
    "install_import_alias",
    "registry",
]
