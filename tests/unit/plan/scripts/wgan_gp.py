import argparse
from pathlib import Path

import torch
import torch.nn as nn
from torch import autograd
from torchvision import datasets, transforms
from torchvision.utils import save_image

p = argparse.ArgumentParser()
p.add_argument("--n-iters", type=int, default=200_000, help="generator updates")
p.add_argument("--n-critic", type=int, default=5)
p.add_argument("--bs", type=int, default=64)
p.add_argument("--z-dim", type=int, default=128)
p.add_argument("--gp", type=float, default=10.0)
p.add_argument("--out", type=Path, default=Path("wgan_out"))
p.add_argument("--continue-from", type=Path)
args = p.parse_args()
device = "cuda"


def up(cin, cout):
    return nn.Sequential(nn.ConvTranspose2d(cin, cout, 4, 2, 1), nn.BatchNorm2d(cout), nn.ReLU())


class Generator(nn.Module):
    def __init__(self, z_dim=128):
        super().__init__()
        self.fc = nn.Linear(z_dim, 256 * 4 * 4)
        self.net = nn.Sequential(up(256, 128), up(128, 64), nn.ConvTranspose2d(64, 3, 4, 2, 1), nn.Tanh())

    def forward(self, z):
        return self.net(self.fc(z).view(-1, 256, 4, 4))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(3, 64, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(64, 128, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Conv2d(128, 256, 4, 2, 1),
            nn.LeakyReLU(0.2),
            nn.Flatten(),
            nn.Linear(256 * 4 * 4, 1),
        )

    def forward(self, x):
        return self.net(x)


def penalty(critic, real, fake):
    alpha = torch.rand(real.size(0), 1, 1, 1, device=device)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    grads = autograd.grad(critic(mixed).sum(), mixed, create_graph=True)[0]
    return ((grads.flatten(1).norm(2, dim=1) - 1) ** 2).mean()


def endless(loader):
    while True:
        yield from loader


args.out.mkdir(exist_ok=True)
data = datasets.CIFAR10("data", download=True, transform=transforms.Compose([transforms.ToTensor(), transforms.Normalize(0.5, 0.5)]))
batches = endless(torch.utils.data.DataLoader(data, args.bs, shuffle=True, num_workers=3, drop_last=True))
G, D = Generator(args.z_dim).to(device), Critic().to(device)
opt_g = torch.optim.Adam(G.parameters(), 1e-4, betas=(0.0, 0.9))
opt_d = torch.optim.Adam(D.parameters(), 1e-4, betas=(0.0, 0.9))
begin = 0
if args.continue_from:
    saved = torch.load(args.continue_from)
    G.load_state_dict(saved["G"])
    D.load_state_dict(saved["D"])
    opt_g.load_state_dict(saved["opt_g"])
    opt_d.load_state_dict(saved["opt_d"])
    begin = saved["it"]

for it in range(begin, args.n_iters):
    for _ in range(args.n_critic):
        real = next(batches)[0].to(device)
        fake = G(torch.randn(args.bs, args.z_dim, device=device)).detach()
        d_loss = D(fake).mean() - D(real).mean() + args.gp * penalty(D, real, fake)
        opt_d.zero_grad()
        d_loss.backward()
        opt_d.step()
    g_loss = -D(G(torch.randn(args.bs, args.z_dim, device=device))).mean()
    opt_g.zero_grad()
    g_loss.backward()
    opt_g.step()
    if it % 5000 == 0:
        save_image(fake[:64], args.out / f"{it}.png", normalize=True)
        state = {"G": G.state_dict(), "D": D.state_dict(), "opt_g": opt_g.state_dict(), "opt_d": opt_d.state_dict(), "it": it}
        torch.save(state, args.out / "last.pt")
