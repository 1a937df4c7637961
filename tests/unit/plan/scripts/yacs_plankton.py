"""Plankton images: a tree of defaults in a module, a YAML file over it, options over both."""

import argparse
import os

import torch
import torch.distributed as dist
from timm.models import create_model
from torchvision import datasets
from yacs_plankton_tree import tree_of


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cfg", required=True)
    parser.add_argument("--batch-size", type=int)
    parser.add_argument("--folder", type=str)
    parser.add_argument("--full-precision", action="store_true")
    parser.add_argument("--resume")
    args = parser.parse_args()
    return tree_of(args)


def loader_of(cfg):
    if cfg.DATA.KIND == "folder":
        data = datasets.ImageFolder(os.path.join(cfg.DATA.FOLDER, "train"))
    return torch.utils.data.DataLoader(data, batch_size=cfg.DATA.BATCH, num_workers=cfg.DATA.THREADS)


def main(cfg):
    dist.init_process_group("nccl")
    loader = loader_of(cfg)
    model = create_model(cfg.NET.NAME, num_classes=121).cuda()
    model = torch.nn.parallel.DistributedDataParallel(model)
    optimiser = torch.optim.AdamW(model.parameters(), lr=cfg.FIT.RATE)
    first = 0
    if cfg.NET.RESUME:
        state = torch.load(cfg.NET.RESUME)
        optimiser.load_state_dict(state["optimiser"])
        first = state["epoch"] + 1
    for epoch in range(first, cfg.FIT.EPOCHS):
        for images, target in loader:
            with torch.cuda.amp.autocast(enabled=cfg.MIXED):
                loss = model(images.cuda(), target.cuda())
            loss.backward()
            optimiser.step()
        torch.save({"net": model.state_dict(), "optimiser": optimiser.state_dict(), "epoch": epoch}, "last.pth")


if __name__ == "__main__":
    main(options())
