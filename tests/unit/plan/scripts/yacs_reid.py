import argparse
import os

import torch
import torchvision
from torch.utils.data import DataLoader
from torchvision import transforms as T
from yacs.config import CfgNode as CN

_C = CN()
_C.MODEL = CN()
_C.MODEL.NAME = "resnet50"
_C.MODEL.PRETRAINED = True
_C.INPUT = CN()
_C.INPUT.SIZE = 256
_C.DATASETS = CN()
_C.DATASETS.ROOT = "datasets/vehicles"
_C.DATALOADER = CN()
_C.DATALOADER.NUM_WORKERS = 4
_C.SOLVER = CN()
_C.SOLVER.MAX_EPOCHS = 120
_C.SOLVER.IMS_PER_BATCH = 64
_C.SOLVER.BASE_LR = 3.5e-4
_C.SOLVER.CHECKPOINT_PERIOD = 10
_C.SOLVER.AMP = False
_C.OUTPUT_DIR = "runs/reid"


def build(cfg):
    network = getattr(torchvision.models, cfg.MODEL.NAME)(weights="DEFAULT" if cfg.MODEL.PRETRAINED else None)
    return network


def load(cfg):
    augment = T.Compose(
        [
            T.Resize((cfg.INPUT.SIZE, cfg.INPUT.SIZE)),
            T.RandomHorizontalFlip(),
            T.ToTensor(),
        ]
    )
    data = torchvision.datasets.ImageFolder(os.path.join(cfg.DATASETS.ROOT, "train"), augment)
    return DataLoader(
        data,
        batch_size=cfg.SOLVER.IMS_PER_BATCH,
        num_workers=cfg.DATALOADER.NUM_WORKERS,
        shuffle=True,
        drop_last=True,
    )


def main():
    parser = argparse.ArgumentParser(description="re-identification")
    parser.add_argument("--config_file", default="", type=str)
    parser.add_argument("opts", default=None, nargs=argparse.REMAINDER)
    args = parser.parse_args()
    cfg = _C.clone()
    if args.config_file:
        cfg.merge_from_file(args.config_file)
    cfg.merge_from_list(args.opts)
    cfg.freeze()

    model = build(cfg).cuda()
    loader = load(cfg)
    criterion = torch.nn.CrossEntropyLoss(label_smoothing=0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=cfg.SOLVER.BASE_LR, weight_decay=5e-4)
    scaler = torch.cuda.amp.GradScaler(enabled=cfg.SOLVER.AMP)
    for epoch in range(1, cfg.SOLVER.MAX_EPOCHS + 1):
        model.train()
        for images, ids in loader:
            images, ids = images.cuda(non_blocking=True), ids.cuda(non_blocking=True)
            with torch.cuda.amp.autocast(enabled=cfg.SOLVER.AMP):
                loss = criterion(model(images), ids)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        if epoch % cfg.SOLVER.CHECKPOINT_PERIOD == 0:
            torch.save(model.state_dict(), os.path.join(cfg.OUTPUT_DIR, f"reid_{epoch}.pth"))


if __name__ == "__main__":
    main()
