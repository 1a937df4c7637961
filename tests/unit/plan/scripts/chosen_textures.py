"""Texture GAN: the data set is one of several, chosen by an option; helpers live in a module that is not here."""

import argparse
import os

import torch
import torchvision.datasets as sets
from helpers import Average, save_on_master
from torch import nn, optim

parser = argparse.ArgumentParser()
parser.add_argument("--source", default="folder", choices=["folder", "stl", "tenclass"])
parser.add_argument("--root", default="/datasets/shared/textures/", type=str)
parser.add_argument("-b", "--batch-size", dest="bsz", type=int, default=32)
parser.add_argument("--niter", type=int, default=40, help="passes over the data")
parser.add_argument("--average-on-cpu", action="store_true")
parser.add_argument("--threads", type=int, default=6)
parser.add_argument("--amp", action="store_true")
parser.add_argument("--out-dir", default="runs/textures")
parser.add_argument("--device", default="cuda")
opts = parser.parse_args()


def pictures(name, root):
    if name == "stl":
        return sets.STL10(root, split="unlabeled", download=True)
    elif name == "tenclass":
        return sets.CIFAR10(root, download=True)
    return sets.ImageFolder(os.path.join(root, "train"))


class Painter(nn.Module):
    def __init__(self, noise=96, width=64):
        super().__init__()
        self.body = nn.Sequential(
            nn.ConvTranspose2d(noise, width * 8, 4, 1, 0, bias=False),
            nn.BatchNorm2d(width * 8),
            nn.ConvTranspose2d(width * 8, width * 4, 4, 2, 1, bias=False),
            nn.BatchNorm2d(width * 4),
            nn.ConvTranspose2d(width * 4, 3, 4, 2, 1, bias=False),
        )


def one_pass(net, loader, optimiser, average, batch_size=8):
    for images, _ in loader:
        optimiser.zero_grad()
        if opts.amp:
            with torch.cuda.amp.autocast():
                loss = net.loss(images.to(opts.device))
        else:
            loss = net.loss(images.to(opts.device))
        loss.backward()
        optimiser.step()
        average.update(net)


data = pictures(opts.source, opts.root)
loader = torch.utils.data.DataLoader(data, batch_size=opts.bsz, shuffle=True, num_workers=opts.threads)
net = Painter().to(opts.device)
average = Average(net, device="cpu" if opts.average_on_cpu else "")
optimiser = optim.Adam(net.parameters(), lr=2e-4)
for epoch in range(opts.niter):
    one_pass(net, loader, optimiser, average)
    save_on_master({"net": net.state_dict(), "epoch": epoch}, os.path.join(opts.out_dir, "last.pth"))
