"""Unconditional diffusion of 64 pixel sprites. Launch: accelerate launch ddpm_sprites.py"""
import math
from dataclasses import dataclass
from pathlib import Path

import torch
from accelerate import Accelerator
from datasets import load_dataset
from diffusers import DDPMScheduler, UNet2DModel
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader
from torchvision.transforms import Compose, Normalize, RandomHorizontalFlip, Resize, ToTensor


@dataclass
class Run:
    side: int = 64
    batch: int = 48
    rounds: int = 120  # times through the data
    lr: float = 2e-4
    warm: int = 400
    keep_every: int = 4
    folder: Path = Path("sprites")
    precision: str = "bf16"


def pictures(run):
    tf = Compose([Resize((run.side, run.side)), RandomHorizontalFlip(), ToTensor(), Normalize([0.5], [0.5])])
    rows = load_dataset("huggan/pokemon", split="train")
    rows.set_transform(lambda part: {"x": [tf(image.convert("RGB")) for image in part["image"]]})
    return DataLoader(rows, run.batch, shuffle=True, num_workers=6, drop_last=True)


def network(run):
    return UNet2DModel(
        sample_size=run.side,
        in_channels=3,
        out_channels=3,
        layers_per_block=2,
        block_out_channels=(128, 128, 256, 256, 512, 512),
        down_block_types=("DownBlock2D",) * 4 + ("AttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "AttnUpBlock2D") + ("UpBlock2D",) * 4,
    )


def main(run: Run):
    accelerator = Accelerator(mixed_precision=run.precision)
    loader, unet, noise = pictures(run), network(run), DDPMScheduler(num_train_timesteps=1000)
    optimizer = torch.optim.AdamW(unet.parameters(), lr=run.lr)
    total = run.rounds * len(loader)
    rise = lambda n: min(1.0, n / run.warm) * 0.5 * (1 + math.cos(math.pi * n / total))
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rise)
    unet, optimizer, loader, schedule = accelerator.prepare(unet, optimizer, loader, schedule)
    for epoch in range(run.rounds):
        unet.train()
        for batch in loader:
            clean = batch["x"]
            added = torch.randn_like(clean)
            when = torch.randint(noise.config.num_train_timesteps, (len(clean),), device=clean.device)
            guess = unet(noise.add_noise(clean, added, when), when).sample
            loss = mse_loss(guess.float(), added.float())
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(unet.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        accelerator.print(epoch, loss.item())
        if accelerator.is_main_process and epoch % run.keep_every == 0:
            accelerator.unwrap_model(unet).save_pretrained(run.folder / f"unet_{epoch}")


if __name__ == "__main__":
    main(Run())
