"""Fine-tune any timm model on a folder of images."""
import argparse
import os
from contextlib import suppress

import timm
import torch
from timm.data import create_dataset, create_loader, resolve_data_config
from timm.loss import LabelSmoothingCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler
from timm.utils import AverageMeter, CheckpointSaver, NativeScaler, accuracy


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data-dir", default="./images")
    parser.add_argument("--model", default="resnet50", type=str)
    parser.add_argument("--img-size", type=int, default=224)
    parser.add_argument("-b", "--batch-size", type=int, default=128)
    parser.add_argument("-j", "--workers", type=int, default=4)
    parser.add_argument("--opt", default="sgd")
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--epochs", type=int, default=300)
    parser.add_argument("--amp", action="store_true", default=False)
    parser.add_argument("--resume", default="", type=str)
    parser.add_argument("--output", default="./output", type=str)
    return parser.parse_args()


def main():
    args = get_args()
    device = torch.device("cuda")
    model = timm.create_model(args.model, pretrained=False, num_classes=1000)
    model.to(device)
    config = resolve_data_config(vars(args), model=model)
    optimizer = create_optimizer_v2(model, opt=args.opt, lr=args.lr)
    amp_autocast = suppress
    loss_scaler = None
    if args.amp:
        amp_autocast = torch.cuda.amp.autocast
        loss_scaler = NativeScaler()
    start_epoch = 0
    if args.resume:
        state = torch.load(args.resume, map_location="cpu")
        model.load_state_dict(state["state_dict"])
        optimizer.load_state_dict(state["optimizer"])
        start_epoch = state["epoch"] + 1
    dataset_train = create_dataset("", root=args.data_dir, split="train", is_training=True)
    loader_train = create_loader(
        dataset_train,
        input_size=config["input_size"],
        batch_size=args.batch_size,
        is_training=True,
        num_workers=args.workers,
    )
    scheduler = CosineLRScheduler(optimizer, t_initial=args.epochs)
    saver = CheckpointSaver(model=model, optimizer=optimizer, checkpoint_dir=args.output)
    criterion = LabelSmoothingCrossEntropy()
    for epoch in range(start_epoch, args.epochs):
        for x, y in loader_train:
            with amp_autocast():
                loss = criterion(model(x), y)
            optimizer.zero_grad()
            if loss_scaler is not None:
                loss_scaler(loss, optimizer)
            else:
                loss.backward()
                optimizer.step()
        scheduler.step(epoch + 1)
        saver.save_checkpoint(epoch)


if __name__ == "__main__":
    main()
