import os
import random
from dataclasses import dataclass

import torch
import torch.nn as nn
import torchvision.datasets as dset
import torchvision.transforms as transforms
import torchvision.utils as vutils


@dataclass
class Options:
    dataroot: str = "/home/ml/celeba"
    workers: int = 2
    batch_size: int = 128
    image_size: int = 64
    nz: int = 100
    num_epochs: int = 5
    lr: float = 2e-4


opt = Options()


class Generator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(100, 512, 4, 1, 0, bias=False),
            nn.BatchNorm2d(512),
            nn.ReLU(True),
            nn.ConvTranspose2d(512, 256, 4, 2, 1, bias=False),
            nn.BatchNorm2d(256),
            nn.ReLU(True),
            nn.ConvTranspose2d(256, 3, 4, 2, 1, bias=False),
            nn.Tanh(),
        )

    def forward(self, x):
        return self.main(x)


class Discriminator(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(3, 64, 4, 2, 1, bias=False),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(64, 256, 4, 2, 1, bias=False),
            nn.BatchNorm2d(256),
            nn.LeakyReLU(0.2, inplace=True),
            nn.Conv2d(256, 1, 4, 1, 0, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, x):
        return self.main(x)


device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
tf = transforms.Compose([transforms.Resize(opt.image_size), transforms.CenterCrop(64), transforms.ToTensor()])
dataset = dset.ImageFolder(root=opt.dataroot, transform=tf)
dataloader = torch.utils.data.DataLoader(dataset, batch_size=opt.batch_size, shuffle=True, num_workers=opt.workers)
netG = Generator().to(device)
netD = Discriminator().to(device)
criterion = nn.BCELoss()
optimizerD = torch.optim.Adam(netD.parameters(), lr=opt.lr, betas=(0.5, 0.999))
optimizerG = torch.optim.Adam(netG.parameters(), lr=opt.lr, betas=(0.5, 0.999))

for epoch in range(opt.num_epochs):
    for i, data in enumerate(dataloader, 0):
        netD.zero_grad()
        real = data[0].to(device)
        errD = criterion(netD(real).view(-1), torch.ones(real.size(0), device=device))
        errD.backward()
        optimizerD.step()
        netG.zero_grad()
        fake = netG(torch.randn(real.size(0), opt.nz, 1, 1, device=device))
        errG = criterion(netD(fake).view(-1), torch.ones(real.size(0), device=device))
        errG.backward()
        optimizerG.step()
    torch.save(netG.state_dict(), f"/home/ml/weights/netG_{epoch}.pth")
