import argparse
import os

import torch
import torch.backends.cudnn as cudnn
import torch.distributed as dist
import torch.multiprocessing as mp
import torch.nn as nn
import torchvision.datasets as datasets
import torchvision.models as models
import torchvision.transforms as transforms
from torch.nn.parallel import DistributedDataParallel

parser = argparse.ArgumentParser(description="ImageNet on several GPUs")
parser.add_argument("data", metavar="DIR", nargs="?", default="imagenet")
parser.add_argument("-a", "--arch", default="resnet18")
parser.add_argument("-j", "--workers", default=4, type=int)
parser.add_argument("--epochs", default=90, type=int)
parser.add_argument("--start-epoch", default=0, type=int)
parser.add_argument("-b", "--batch-size", default=256, type=int)
parser.add_argument("--resume", default="", type=str, metavar="PATH")
parser.add_argument("--world-size", default=-1, type=int)
parser.add_argument("--dist-url", default="env://")


def worker(gpu, ngpus, args):
    dist.init_process_group("nccl", init_method=args.dist_url, world_size=args.world_size, rank=gpu)
    model = models.__dict__[args.arch]()
    torch.cuda.set_device(gpu)
    model.cuda(gpu)
    args.batch_size = int(args.batch_size / ngpus)
    model = DistributedDataParallel(model, device_ids=[gpu])
    criterion = nn.CrossEntropyLoss().cuda(gpu)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    if args.resume and os.path.isfile(args.resume):
        checkpoint = torch.load(args.resume, map_location=f"cuda:{gpu}")
        args.start_epoch = checkpoint["epoch"]
        model.load_state_dict(checkpoint["state_dict"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    cudnn.benchmark = True
    train_dataset = datasets.ImageFolder(
        os.path.join(args.data, "train"),
        transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()]),
    )
    sampler = torch.utils.data.distributed.DistributedSampler(train_dataset)
    train_loader = torch.utils.data.DataLoader(
        train_dataset, batch_size=args.batch_size, num_workers=args.workers, pin_memory=True, sampler=sampler
    )
    val_loader = torch.utils.data.DataLoader(
        datasets.ImageFolder(os.path.join(args.data, "val")), batch_size=args.batch_size, num_workers=args.workers
    )
    for epoch in range(args.start_epoch, args.epochs):
        sampler.set_epoch(epoch)
        for images, target in train_loader:
            loss = criterion(model(images.cuda(gpu)), target.cuda(gpu))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        validate(val_loader, model, criterion)
        if gpu == 0:
            torch.save(
                {"epoch": epoch + 1, "state_dict": model.state_dict(), "optimizer": optimizer.state_dict()},
                "checkpoint.pth.tar",
            )


def validate(loader, model, criterion):
    model.eval()
    with torch.no_grad():
        for images, target in loader:
            criterion(model(images.cuda()), target.cuda())


def main():
    args = parser.parse_args()
    ngpus = torch.cuda.device_count()
    args.world_size = ngpus
    mp.spawn(worker, nprocs=ngpus, args=(ngpus, args))


if __name__ == "__main__":
    main()
