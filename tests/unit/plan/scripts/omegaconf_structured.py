import logging
import sys
from dataclasses import dataclass, field
from pathlib import Path

import torch
from omegaconf import MISSING, OmegaConf
from torch import nn, optim
from torch.utils.data import DataLoader
from torchvision.datasets import SVHN
from torchvision.models import mobilenet_v3_large
from torchvision.transforms import v2

log = logging.getLogger(__name__)


@dataclass
class DataConfig:
    root: str = "data/svhn"
    batch_size: int = 128
    workers: int = 6


@dataclass
class OptimConfig:
    name: str = "SGD"
    lr: float = 0.05
    momentum: float = 0.9
    epochs: int = 45


@dataclass
class Config:
    data: DataConfig = field(default_factory=DataConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    amp: bool = True
    run: str = MISSING
    resume: bool = True


def setup():
    cli = OmegaConf.from_cli(sys.argv[1:])
    return OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Config), cli))


def main():
    cfg = setup()
    folder = Path("runs") / cfg.run
    folder.mkdir(parents=True, exist_ok=True)
    tf = v2.Compose([v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    train = SVHN(cfg.data.root, split="train", download=True, transform=tf)
    loader = DataLoader(train, cfg.data.batch_size, shuffle=True, num_workers=cfg.data.workers, pin_memory=True)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = mobilenet_v3_large(num_classes=10).to(device)
    optimizer = optim.SGD(model.parameters(), lr=cfg.optim.lr, momentum=cfg.optim.momentum)
    schedule = optim.lr_scheduler.CosineAnnealingLR(optimizer, cfg.optim.epochs)
    scaler = torch.cuda.amp.GradScaler(enabled=cfg.amp)
    last, start = folder / "last.ckpt", 0
    if cfg.resume and last.exists():
        saved = torch.load(last)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        schedule.load_state_dict(saved["schedule"])
        start = saved["epoch"] + 1
        log.info("going on with epoch %d", start)
    for epoch in range(start, cfg.optim.epochs):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            with torch.autocast(device.type, enabled=cfg.amp):
                loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad(set_to_none=True)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        schedule.step()
        parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
        torch.save({**{k: v.state_dict() for k, v in parts.items()}, "epoch": epoch}, last)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    main()
