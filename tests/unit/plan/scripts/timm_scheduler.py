import argparse
import time
from contextlib import suppress

import torch
from timm import create_model
from timm.data import Mixup, create_dataset, create_loader
from timm.loss import SoftTargetCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from timm.utils import CheckpointSaver, ModelEmaV2, NativeScaler

parser = argparse.ArgumentParser()
parser.add_argument("data_dir", metavar="DIR")
parser.add_argument("--model", default="deit_small_patch16_224")
parser.add_argument("--opt", default="adamw")
parser.add_argument("--lr", type=float, default=5e-4)
parser.add_argument("-b", "--batch-size", type=int, default=128)
parser.add_argument("--epochs", type=int, default=300)
parser.add_argument("--warmup-epochs", type=int, default=5)
parser.add_argument("-j", "--workers", type=int, default=10)
parser.add_argument("--amp", action="store_true", default=False)
parser.add_argument("--img-size", type=int, default=224)
parser.add_argument("--output", default="output")


def train_epoch(epoch, model, loader, loss_fn, optimizer, cast, scaler, ema, scheduler, mixup):
    model.train()
    updates = epoch * len(loader)
    for images, target in loader:
        images, target = mixup(images, target)
        with cast():
            loss = loss_fn(model(images), target)
        optimizer.zero_grad()
        if scaler is not None:
            scaler(loss, optimizer, clip_grad=1.0, parameters=model.parameters())
        else:
            loss.backward()
            optimizer.step()
        ema.update(model)
        updates += 1
        scheduler.step_update(num_updates=updates)


def main():
    args = parser.parse_args()
    device = torch.device("cuda")
    model = create_model(args.model, pretrained=False, num_classes=1000, drop_path_rate=0.1).to(device)
    optimizer = create_optimizer_v2(model, opt=args.opt, lr=args.lr, weight_decay=0.05)
    cast, scaler = suppress, None
    if args.amp:
        cast, scaler = lambda: torch.autocast("cuda", dtype=torch.float16), NativeScaler()
    ema = ModelEmaV2(model, decay=0.9999)
    dataset = create_dataset("imagenet", root=args.data_dir, split="train", is_training=True)
    loader = create_loader(
        dataset,
        input_size=(3, args.img_size, args.img_size),
        batch_size=args.batch_size,
        is_training=True,
        auto_augment="rand-m9-mstd0.5-inc1",
        num_workers=args.workers,
    )
    mixup = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, num_classes=1000)
    scheduler, num_epochs = create_scheduler_v2(
        optimizer, sched="cosine", num_epochs=args.epochs, warmup_epochs=args.warmup_epochs
    )
    saver = CheckpointSaver(model, optimizer, args=args, model_ema=ema, checkpoint_dir=args.output)
    for epoch in range(num_epochs):
        begun = time.time()
        train_epoch(epoch, model, loader, SoftTargetCrossEntropy(), optimizer, cast, scaler, ema, scheduler, mixup)
        scheduler.step(epoch + 1)
        saver.save_checkpoint(epoch)
        print(f"epoch {epoch}: {time.time() - begun:.0f} s")


if __name__ == "__main__":
    main()
