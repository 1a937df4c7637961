"""Generate the script for the torch-classifier trainer, which uses PyTorch and torchvision directly."""

from __future__ import annotations

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.errors import BadConfig
from anygpu.trainers.scripts.templates import PROGRESS, fill
from anygpu.trainers.torch import settings

TEMPLATE = '''\
"""Trains {MODEL!t} to sort images into classes. Needs: pip install torch torchvision

    python train.py [dataset]       train/<class>/*.jpg and val/<class>/*.jpg, or <class>/*.jpg
A second run continues after the last epoch that was saved.
"""

import json
import sys
from pathlib import Path

import torch
import torchvision
from torch import nn
from torchvision.transforms import v2

DATASET = Path(sys.argv[1] if len(sys.argv) > 1 else {DATASET})
MODEL, WEIGHTS = {MODEL}, {WEIGHTS}
EPOCHS, BATCH_SIZE, IMAGE_SIZE, WORKERS = {EPOCHS!t}, {BATCH_SIZE!t}, {IMAGE_SIZE!t}, {WORKERS!t}
OPTIMIZER, LEARNING_RATE, WEIGHT_DECAY, MOMENTUM = {OPTIMIZER}, {LEARNING_RATE!t}, {WEIGHT_DECAY!t}, {MOMENTUM!t}
SCHEDULER = {SCHEDULER}
VAL_FRACTION, SEED = {VAL_FRACTION!t}, {SEED!t}
DEVICE = torch.device({DEVICE} if {DEVICE} != "auto" else "cuda" if torch.cuda.is_available() else "cpu")
OUTPUT = Path("outputs")


{PROGRESS!t}

def small_cnn(classes, width=16):
    layers, before = [], 3
    for after in (width, 2 * width, 4 * width, 8 * width):
        layers += [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()]
        layers += [nn.MaxPool2d(2)]
        before = after
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))


def create(classes):
    if MODEL == "small-cnn":
        return small_cnn(classes)
    if not WEIGHTS or Path(WEIGHTS).is_file():
        return torchvision.models.get_model(MODEL, num_classes=classes)
    model = torchvision.models.get_model(MODEL, weights=WEIGHTS)
    for name, layer in reversed(list(model.named_modules())):  # a new last layer, for these classes
        if isinstance(layer, nn.Linear):
            parent = model.get_submodule(name.rpartition(".")[0])
            setattr(parent, name.rpartition(".")[2], nn.Linear(layer.in_features, classes))
            break
    return model


def loaders():
    usual = [v2.ToImage(), v2.ToDtype(torch.float32, scale=True)]
    scale = v2.Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    varied = v2.Compose([*usual, v2.RandomResizedCrop(IMAGE_SIZE, scale=(0.6, 1)), v2.RandomHorizontalFlip(), scale])
    plain = v2.Compose([*usual, v2.Resize((IMAGE_SIZE, IMAGE_SIZE)), scale])
    folder = torchvision.datasets.ImageFolder
    if (DATASET / "train").is_dir():
        train, val = folder(DATASET / "train", varied), folder(DATASET / "val", plain)
    else:
        train, val = folder(DATASET, varied), folder(DATASET, plain)
        order = torch.randperm(len(train), generator=torch.Generator().manual_seed(SEED)).tolist()
        cut = max(1, round(len(order) * VAL_FRACTION))
        classes = train.classes
        train, val = torch.utils.data.Subset(train, order[cut:]), torch.utils.data.Subset(val, order[:cut])
        train.classes = classes
    load = torch.utils.data.DataLoader
    return (
        load(train, BATCH_SIZE, shuffle=True, num_workers=WORKERS, drop_last=len(train) > BATCH_SIZE),
        load(val, BATCH_SIZE, num_workers=WORKERS),
        train.classes,
    )


def optimizer_for(model):
    if OPTIMIZER == "sgd":
        return torch.optim.SGD(model.parameters(), LEARNING_RATE, momentum=MOMENTUM, weight_decay=WEIGHT_DECAY)
    kind = torch.optim.AdamW if OPTIMIZER == "adamw" else torch.optim.Adam
    return kind(model.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY)


def scheduler_for(optimizer, steps):
    total = EPOCHS * steps
    if SCHEDULER == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)
    if SCHEDULER == "step":
        return torch.optim.lr_scheduler.StepLR(optimizer, max(1, total // 3))
    if SCHEDULER == "onecycle":
        return torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=total)
    return torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)


def accuracy_of(model, images):
    model.eval()
    right = seen = 0
    with torch.no_grad():
        for batch, labels in images:
            right += (model(batch.to(DEVICE)).argmax(1).cpu() == labels).sum().item()
            seen += len(labels)
    return right / max(1, seen)


def main():
    torch.manual_seed(SEED)
    OUTPUT.mkdir(exist_ok=True)
    train, val, classes = loaders()
    model = create(len(classes))
    if WEIGHTS and Path(WEIGHTS).is_file():
        model.load_state_dict(torch.load(WEIGHTS, map_location="cpu"))
    model.to(DEVICE)
    optimizer = optimizer_for(model)
    scheduler = scheduler_for(optimizer, len(train))
    start, best, last = 0, -1.0, OUTPUT / "last.pt"
    if last.is_file():
        saved = torch.load(last, map_location=DEVICE)
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
        scheduler.load_state_dict(saved["scheduler"])
        start, best = saved["epoch"], saved["best"]
    for epoch in range(start, EPOCHS):
        model.train()
        total = 0.0
        for step, (images, labels) in enumerate(train):
            loss = nn.functional.cross_entropy(model(images.to(DEVICE)), labels.to(DEVICE))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            total += loss.item()
        accuracy = accuracy_of(model, val)
        progress(epoch=epoch + 1, total_epochs=EPOCHS, loss=total / (step + 1), accuracy=accuracy)
        if accuracy > best:
            best = accuracy
            torch.save({{"model": model.state_dict(), "classes": classes}}, OUTPUT / "best.pt")
        state = {{"model": model.state_dict(), "optimizer": optimizer.state_dict(), "best": best}}
        torch.save(state | {{"scheduler": scheduler.state_dict(), "epoch": epoch + 1}}, OUTPUT / "draft.pt")
        (OUTPUT / "draft.pt").replace(last)


if __name__ == "__main__":
    main()
'''
KEPT = ("weight_decay", "momentum")


def write_script(config: TrainingConfig, dataset: str) -> str:
    left_out = sorted(set(config.options) - set(KEPT))
    if left_out:
        raise BadConfig(
            "\n".join(f"{name}: the script does not support this setting; remove it" for name in left_out)
        )
    options = {name: config.option(name, settings.CLASSIFIER[name].default) for name in KEPT}
    return fill(
        TEMPLATE,
        MODEL=config.model,
        WEIGHTS=config.weights,
        DATASET=dataset or "dataset",
        EPOCHS=config.epochs,
        BATCH_SIZE=config.batch_size,
        IMAGE_SIZE=config.image_size or (64 if config.model == settings.SMALL else 224),
        WORKERS=config.workers,
        OPTIMIZER=config.optimizer,
        LEARNING_RATE=config.learning_rate or settings.USUAL_RATE[config.optimizer],
        WEIGHT_DECAY=options["weight_decay"],
        MOMENTUM=options["momentum"],
        SCHEDULER=config.scheduler,
        VAL_FRACTION=config.val_fraction,
        SEED=config.seed,
        DEVICE=config.device,
        PROGRESS=PROGRESS,
    )
