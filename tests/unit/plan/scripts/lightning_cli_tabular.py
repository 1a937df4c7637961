"""Train with: python lightning_cli_tabular.py fit --config cli_tabular.yaml"""
import pandas as pd
import torch
from lightning.pytorch import LightningDataModule, LightningModule
from lightning.pytorch.cli import LightningCLI
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class HouseData(LightningDataModule):
    def __init__(self, csv: str = "houses.csv", batch_size: int = 64, num_workers: int = 2):
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage=None):
        frame = pd.read_csv(self.hparams.csv)
        target = torch.tensor(frame.pop("price").values, dtype=torch.float32)
        rows = torch.tensor(frame.values, dtype=torch.float32)
        cut = int(0.9 * len(rows))
        self.train_rows = TensorDataset(rows[:cut], target[:cut])
        self.val_rows = TensorDataset(rows[cut:], target[cut:])

    def train_dataloader(self):
        return DataLoader(
            self.train_rows,
            batch_size=self.hparams.batch_size,
            shuffle=True,
            num_workers=self.hparams.num_workers,
        )

    def val_dataloader(self):
        return DataLoader(self.val_rows, batch_size=1024, num_workers=self.hparams.num_workers)


class PriceNet(LightningModule):
    def __init__(self, features: int = 80, width: int = 512, lr: float = 1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.body = nn.Sequential(
            nn.Linear(features, width),
            nn.GELU(),
            nn.Linear(width, width),
            nn.GELU(),
            nn.Linear(width, 1),
        )

    def forward(self, rows):
        return self.body(rows).squeeze(-1)

    def training_step(self, batch, _):
        rows, price = batch
        loss = nn.functional.smooth_l1_loss(self(rows), price)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch, _):
        rows, price = batch
        self.log("val/mae", (self(rows) - price).abs().mean())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


def main():
    LightningCLI(PriceNet, HouseData, seed_everything_default=7)


if __name__ == "__main__":
    main()
