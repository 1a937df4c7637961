"""Model plugins: classes with `train(train_loader, val_loader, callbacks)`, run unchanged.

from anygpu.trainers.plugins import BaseModel, registry

@registry.register("mine")
class Mine(BaseModel):
    def train(self, train_loader, val_loader, callbacks): ...
"""

from anygpu.trainers.plugins.adapter import PluginTrainer, adapted
from anygpu.trainers.plugins.base import BaseModel, Callbacks, ModelRegistry, registry
from anygpu.trainers.plugins.lent import lend_names

__all__ = ["BaseModel", "Callbacks", "ModelRegistry", "PluginTrainer", "adapted", "lend_names", "registry"]
