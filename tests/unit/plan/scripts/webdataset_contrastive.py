import argparse
import logging

import timm
import torch
import torch.nn as nn
import torch.nn.functional as F
import webdataset as wds
from torchvision import transforms
from transformers import AutoTokenizer, DistilBertModel


class TwoTower(nn.Module):
    def __init__(self, image_model="resnet50", width=512):
        super().__init__()
        self.image = timm.create_model(image_model, pretrained=True, num_classes=width)
        self.text = DistilBertModel.from_pretrained("distilbert-base-uncased")
        self.project = nn.Linear(768, width)
        self.scale = nn.Parameter(torch.tensor(2.65))

    def forward(self, pixels, ids, mask):
        a = F.normalize(self.image(pixels), dim=-1)
        b = F.normalize(self.project(self.text(ids, mask).last_hidden_state[:, 0]), dim=-1)
        return self.scale.exp() * a @ b.t()


def stream(args, tokenizer):
    pictures = transforms.Compose([transforms.RandomResizedCrop(224, (0.9, 1.0)), transforms.ToTensor()])
    words = lambda t: tokenizer(t, padding="max_length", truncation=True, max_length=64, return_tensors="pt")
    shards = (
        wds.WebDataset(args.shards, resampled=True, handler=wds.warn_and_continue)
        .shuffle(2000)
        .decode("pil")
        .to_tuple("jpg", "txt")
        .map_tuple(pictures, words)
        .batched(args.batch_size, partial=False)
    )
    return wds.WebLoader(shards, batch_size=None, num_workers=args.workers)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--shards", default="s3://pairs/cc3m/{00000..00331}.tar")
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--max-steps", type=int, default=100_000)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--save-every", type=int, default=2000)
    parser.add_argument("--resume", type=str, default="")
    args = parser.parse_args()
    device = torch.device("cuda")
    tokenizer = AutoTokenizer.from_pretrained("distilbert-base-uncased")
    model = TwoTower().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.2)
    step = 0
    if args.resume:
        state = torch.load(args.resume, map_location="cpu")
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        step = state["step"]
    for pixels, text in stream(args, tokenizer):
        if step >= args.max_steps:
            break
        pixels = pixels.to(device, non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(pixels, text["input_ids"].squeeze(1).to(device), text["attention_mask"].squeeze(1).to(device))
            target = torch.arange(len(logits), device=device)
            loss = (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)) / 2
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        step += 1
        if step % 50 == 0:
            logging.info("step %d loss %.4f", step, loss.item())
        if step % args.save_every == 0:
            torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, "clip_last.pt")


if __name__ == "__main__":
    main()
