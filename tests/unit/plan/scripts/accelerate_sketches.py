"""Teaches a diffusion model one artist's sketches: so many steps, whatever the epochs' default says."""

import argparse
import math
import os
from pathlib import Path

import torch
from accelerate import Accelerator
from diffusers import AutoencoderKL, DiffusionPipeline, UNet2DConditionModel
from torch.utils.data import Dataset


class Sketches(Dataset):
    def __init__(self, folder):
        self.files = list(Path(folder).iterdir())

    def __len__(self):
        return len(self.files)


def show_samples(unet, args):
    pipe = DiffusionPipeline.from_pretrained(args.pretrained_model_name_or_path, unet=unet)
    with torch.autocast("cuda"):
        return pipe("a sketch of a harbour").images


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pretrained_model_name_or_path", required=True)
    parser.add_argument("--instance_data_dir", required=True)
    parser.add_argument("--output_dir", default="sketched")
    parser.add_argument("--train_batch_size", type=int, default=4)
    parser.add_argument("--num_train_epochs", type=int, default=20)
    parser.add_argument("--max_train_steps", type=int, default=None)
    parser.add_argument("--checkpointing_steps", type=int, default=250)
    parser.add_argument("--mixed_precision", default=None)
    parser.add_argument("--resume_from_checkpoint", default=None)
    args = parser.parse_args()
    accelerator = Accelerator(mixed_precision=args.mixed_precision)
    vae = AutoencoderKL.from_pretrained(args.pretrained_model_name_or_path, subfolder="vae")
    unet = UNet2DConditionModel.from_pretrained(args.pretrained_model_name_or_path, subfolder="unet")
    data = Sketches(args.instance_data_dir)
    loader = torch.utils.data.DataLoader(data, batch_size=args.train_batch_size, shuffle=True, num_workers=2)
    optimiser = torch.optim.AdamW(unet.parameters(), lr=5e-6)
    unet, optimiser, loader = accelerator.prepare(unet, optimiser, loader)
    if args.max_train_steps is None:
        args.max_train_steps = args.num_train_epochs * len(loader)
    args.num_train_epochs = math.ceil(args.max_train_steps / len(loader))
    done = 0
    if args.resume_from_checkpoint:
        accelerator.load_state(args.resume_from_checkpoint)
        done = int(args.resume_from_checkpoint.rpartition("-")[2])
    for epoch in range(args.num_train_epochs):
        for batch in loader:
            loss = unet(vae.encode(batch)).loss
            accelerator.backward(loss)
            optimiser.step()
            optimiser.zero_grad()
            done += 1
            if done % args.checkpointing_steps == 0:
                accelerator.save_state(os.path.join(args.output_dir, f"checkpoint-{done}"))
                show_samples(unet, args)


if __name__ == "__main__":
    main()
