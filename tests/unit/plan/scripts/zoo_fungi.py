"""Fungi: one network of a small zoo, each file of which tries its own in a test."""

import os

import torch
import torchvision
from torch import nn, optim
from zoo_fungi_stacked import *
from zoo_fungi_skipping import *

device = "cuda" if torch.cuda.is_available() else "cpu"
data = torchvision.datasets.ImageFolder("fungi/train")
loader = torch.utils.data.DataLoader(data, batch_size=56, shuffle=True, num_workers=2)
net = skipping_small()
net = net.to(device)
first = 0
if os.path.exists("fungi.pth"):
    kept = torch.load("fungi.pth")
    net.load_state_dict(kept["net"])
    first = kept["epoch"]
optimiser = optim.SGD(net.parameters(), lr=0.1)


def test(epoch):
    torch.save({"net": net.state_dict(), "epoch": epoch}, "fungi.pth")


for epoch in range(first, first + 70):
    for images, kinds in loader:
        optimiser.zero_grad()
        nn.functional.cross_entropy(net(images.to(device)), kinds.to(device)).backward()
        optimiser.step()
    test(epoch)
