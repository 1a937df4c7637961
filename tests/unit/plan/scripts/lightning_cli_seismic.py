"""Seismic traces: LightningCLI with defaults for its Trainer, and a callback that loads a little of its own."""

import torch
from lightning.pytorch import LightningDataModule, LightningModule, callbacks
from lightning.pytorch.cli import LightningCLI
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Peek(callbacks.Callback):
    def on_train_epoch_end(self, trainer, module):
        few = DataLoader(trainer.datamodule.traces_val, batch_size=2)
        module.show(next(iter(few)))


class Denoiser(LightningModule):
    def __init__(self, width: int = 512):
        super().__init__()
        self.into = nn.Linear(6000, width)
        self.out = nn.Linear(width, 6000)

    def training_step(self, batch, index):
        return nn.functional.mse_loss(self.out(self.into(batch[0])), batch[1])

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters())


class Traces(LightningDataModule):
    def __init__(self, batch_size: int = 160):
        super().__init__()
        self.batch_size = batch_size

    def setup(self, stage):
        self.traces_train = TensorDataset(*torch.load("data/traces.pt"))
        self.traces_val = TensorDataset(*torch.load("data/held_back.pt"))

    def train_dataloader(self):
        return DataLoader(self.traces_train, batch_size=self.batch_size, num_workers=5)


if __name__ == "__main__":
    cli = LightningCLI(Denoiser, Traces, run=False, trainer_defaults={"callbacks": Peek(), "max_epochs": 35})
    cli.trainer.fit(cli.model, datamodule=cli.datamodule)
