import argparse
import os

import deepspeed
import torch
import torchvision
import torchvision.transforms as T
from torch import nn


def get_args():
    parser = argparse.ArgumentParser()
    parser.add_argument("--local_rank", type=int, default=int(os.getenv("LOCAL_RANK", "0")))
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--data", default="imagenette/train")
    parser.add_argument("--save_dir", default="ds_ckpts")
    parser.add_argument("--tag", default=None, help="go on from this checkpoint")
    return deepspeed.add_config_arguments(parser).parse_args()


def main():
    args = get_args()
    deepspeed.init_distributed()
    torch.cuda.set_device(args.local_rank)
    transform = T.Compose([T.RandomResizedCrop(224), T.RandomHorizontalFlip(), T.ToTensor()])
    data = torchvision.datasets.ImageFolder(args.data, transform)
    model = torchvision.models.swin_t(num_classes=10)
    engine, _, loader, _ = deepspeed.initialize(
        args=args,
        model=model,
        model_parameters=model.parameters(),
        training_data=data,
        config="ds_config.json",
    )
    first = 0
    if args.tag:
        _, extra = engine.load_checkpoint(args.save_dir, args.tag)
        first = extra["epoch"] + 1
    criterion = nn.CrossEntropyLoss()
    for epoch in range(first, args.epochs):
        total = 0.0
        for images, labels in loader:
            images, labels = images.to(engine.device).half(), labels.to(engine.device)
            loss = criterion(engine(images), labels)
            engine.backward(loss)
            engine.step()
            total += loss.item()
        if engine.global_rank == 0:
            print(f"epoch {epoch} loss {total / len(loader):.4f}")
        engine.save_checkpoint(args.save_dir, f"epoch{epoch}", client_state={"epoch": epoch})


if __name__ == "__main__":
    main()
