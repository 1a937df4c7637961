"""Ships in radar images: a network of the code's own around a published one that an option names."""

import argparse

import torch
import torchvision
from helpers import ShipsDataset, init_distributed_mode
from torch import nn


class Eyes(nn.Module):
    def __init__(self, name, frozen):
        super().__init__()
        body = getattr(torchvision.models, name)(pretrained=True)
        self.body = nn.Sequential(*list(body.children())[:-2])
        self.frozen = frozen


class Mind(nn.Module):
    def __init__(self, wide, deep):
        super().__init__()
        self.layers = nn.ModuleList([nn.TransformerEncoderLayer(wide, 8, 1024) for _ in range(deep)])


class Lookout(nn.Module):
    def __init__(self, eyes, mind, kinds):
        super().__init__()
        self.eyes = eyes
        self.mind = mind
        self.kind = nn.Linear(256, kinds)
        self.box = nn.Linear(256, 4)


def lookout_of(args):
    eyes = Eyes(args.backbone, args.frozen)
    mind = Mind(256, args.deep)
    return Lookout(eyes, mind, kinds=12)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backbone", default="resnet34")
    parser.add_argument("--frozen", action="store_true")
    parser.add_argument("--deep", type=int, default=4)
    parser.add_argument("--batch_size", type=int, default=6)
    parser.add_argument("--epochs", type=int, default=110)
    parser.add_argument("--device", default="cuda")
    args = parser.parse_args()
    init_distributed_mode(args)
    data = ShipsDataset(root="/scratch/radar/ships")
    loader = torch.utils.data.DataLoader(data, batch_size=args.batch_size, num_workers=3)
    model = lookout_of(args).to(args.device)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for epoch in range(args.epochs):
        for images, boxes in loader:
            loss = model(images.to(args.device), boxes)
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
        torch.save(model.state_dict(), f"lookout_{epoch}.pth")


if __name__ == "__main__":
    main()
