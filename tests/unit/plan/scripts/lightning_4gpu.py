import pytorch_lightning as pl
import timm
import torch
import torch.nn.functional as F
from pytorch_lightning.loggers import TensorBoardLogger
from torch.utils.data import DataLoader
from torchvision import datasets, transforms as T

DATA_ROOT = "/mnt/storage/food101"


class Classifier(pl.LightningModule):
    def __init__(self, arch="convnext_tiny", classes=101):
        super().__init__()
        self.model = timm.create_model(arch, pretrained=True, num_classes=classes)

    def training_step(self, batch, _):
        x, y = batch
        return F.cross_entropy(self.model(x), y)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4, weight_decay=0.05)


def loader(split, train):
    tf = T.Compose([T.RandomResizedCrop(224) if train else T.CenterCrop(224), T.ToTensor()])
    data = datasets.ImageFolder(f"{DATA_ROOT}/{split}", tf)
    return DataLoader(data, batch_size=96, shuffle=train, num_workers=12, pin_memory=True)


pl.seed_everything(42)
trainer = pl.Trainer(
    max_epochs=30,
    accelerator="gpu",
    devices=4,
    strategy="ddp",
    precision="bf16-mixed",
    logger=TensorBoardLogger("runs"),
)
trainer.fit(Classifier(), loader("train", True), loader("val", False))
