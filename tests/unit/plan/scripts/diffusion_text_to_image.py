import argparse
import os

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from datasets import load_dataset
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
from diffusers.optimization import get_scheduler
from torchvision import transforms
from transformers import CLIPTextModel, CLIPTokenizer


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--pretrained_model_name_or_path", default="runwayml/stable-diffusion-v1-5")
    p.add_argument("--dataset_name", default="lambdalabs/naruto-blip-captions")
    p.add_argument("--resolution", type=int, default=512)
    p.add_argument("--train_batch_size", type=int, default=16)
    p.add_argument("--max_train_steps", type=int, default=15000)
    p.add_argument("--gradient_accumulation_steps", type=int, default=1)
    p.add_argument("--gradient_checkpointing", action="store_true")
    p.add_argument("--dataloader_num_workers", type=int, default=0)
    p.add_argument("--mixed_precision", default=None, choices=["no", "fp16", "bf16"])
    p.add_argument("--checkpointing_steps", type=int, default=500)
    p.add_argument("--resume_from_checkpoint", default=None)
    p.add_argument("--output_dir", default="sd-model")
    return p.parse_args()


def main():
    args = parse_args()
    accelerator = Accelerator(mixed_precision=args.mixed_precision)
    name = args.pretrained_model_name_or_path
    noise_scheduler = DDPMScheduler.from_pretrained(name, subfolder="scheduler")
    tokenizer = CLIPTokenizer.from_pretrained(name, subfolder="tokenizer")
    text_encoder = CLIPTextModel.from_pretrained(name, subfolder="text_encoder")
    vae = AutoencoderKL.from_pretrained(name, subfolder="vae")
    unet = UNet2DConditionModel.from_pretrained(name, subfolder="unet")
    vae.requires_grad_(False)
    text_encoder.requires_grad_(False)
    if args.gradient_checkpointing:
        unet.enable_gradient_checkpointing()
    optimizer = torch.optim.AdamW(unet.parameters(), lr=1e-5)
    dataset = load_dataset(args.dataset_name)
    augment = transforms.Compose([transforms.Resize(args.resolution), transforms.CenterCrop(args.resolution)])
    loader = torch.utils.data.DataLoader(
        dataset["train"].with_transform(augment),
        shuffle=True,
        batch_size=args.train_batch_size,
        num_workers=args.dataloader_num_workers,
    )
    scheduler = get_scheduler("constant", optimizer=optimizer)
    unet, optimizer, loader, scheduler = accelerator.prepare(unet, optimizer, loader, scheduler)
    global_step = 0
    if args.resume_from_checkpoint:
        accelerator.load_state(args.resume_from_checkpoint)
        global_step = int(args.resume_from_checkpoint.split("-")[1])
    while global_step < args.max_train_steps:
        for batch in loader:
            latents = vae.encode(batch["pixel_values"]).latent_dist.sample() * 0.18215
            noise = torch.randn_like(latents)
            steps = torch.randint(0, 1000, (latents.shape[0],), device=latents.device)
            noisy = noise_scheduler.add_noise(latents, noise, steps)
            pred = unet(noisy, steps, text_encoder(batch["input_ids"])[0]).sample
            loss = F.mse_loss(pred.float(), noise.float())
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            global_step += 1
            if global_step % args.checkpointing_steps == 0:
                accelerator.save_state(os.path.join(args.output_dir, f"checkpoint-{global_step}"))


if __name__ == "__main__":
    main()
