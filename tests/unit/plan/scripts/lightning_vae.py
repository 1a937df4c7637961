import lightning as L
import torch
from lightning.pytorch.callbacks import ModelCheckpoint
from torch import nn
from torch.utils.data import DataLoader, random_split
from torchvision import transforms
from torchvision.datasets import FashionMNIST

HIDDEN = 256


class AutoEncoder(L.LightningModule):
    def __init__(self, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = nn.Sequential(nn.Linear(784, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 16))
        self.decoder = nn.Sequential(nn.Linear(16, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, 784))

    def training_step(self, batch, batch_idx):
        x, _ = batch
        x = x.flatten(1)
        loss = nn.functional.mse_loss(self.decoder(self.encoder(x)), x)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.hparams.lr)


class Data(L.LightningDataModule):
    def __init__(self, batch_size=128):
        super().__init__()
        self.batch_size = batch_size

    def setup(self, stage):
        full = FashionMNIST("data", train=True, download=True, transform=transforms.ToTensor())
        self.train, self.val = random_split(full, [55000, 5000])

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=self.batch_size, shuffle=True, num_workers=4)

    def val_dataloader(self):
        return DataLoader(self.val, batch_size=512, num_workers=4)


if __name__ == "__main__":
    checkpoint = ModelCheckpoint(monitor="train_loss", save_last=True)
    trainer = L.Trainer(max_epochs=20, accelerator="auto", precision="16-mixed", callbacks=[checkpoint])
    trainer.fit(AutoEncoder(), datamodule=Data(), ckpt_path="last")
