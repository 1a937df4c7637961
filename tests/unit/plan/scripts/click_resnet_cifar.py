from pathlib import Path

import click
import torch
import torch.nn as nn
import torchvision
from torch.utils.data import DataLoader
from torchvision import transforms


@click.command()
@click.option("--epochs", "-e", default=200, show_default=True, help="passes over the data")
@click.option("--batch-size", default=128, show_default=True)
@click.option("--num-workers", default=2)
@click.option("--out", type=click.Path(path_type=Path), default=Path("runs"))
@click.option("--resume/--no-resume", default=True)
def train(epochs, batch_size, num_workers, out, resume):
    tf = transforms.Compose([transforms.RandomCrop(32, padding=4), transforms.ToTensor()])
    trainset = torchvision.datasets.CIFAR100(root="./data", train=True, download=True, transform=tf)
    trainloader = DataLoader(trainset, batch_size=batch_size, shuffle=True, num_workers=num_workers)
    net = torchvision.models.resnet18(num_classes=100).to("cuda")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=epochs)
    scaler = torch.amp.GradScaler("cuda")
    first = 0
    last = out / "last.pt"
    if resume and last.exists():
        state = torch.load(last)
        net.load_state_dict(state["net"])
        optimizer.load_state_dict(state["optimizer"])
        scheduler.load_state_dict(state["scheduler"])
        first = state["epoch"] + 1
    for epoch in range(first, epochs):
        for x, y in trainloader:
            with torch.autocast("cuda", dtype=torch.float16):
                loss = nn.functional.cross_entropy(net(x.to("cuda")), y.to("cuda"))
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        scheduler.step()
        torch.save(
            {
                "net": net.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": scheduler.state_dict(),
                "epoch": epoch,
            },
            last,
        )


if __name__ == "__main__":
    train()
