import json
from pathlib import Path

import torch
import typer
from accelerate import Accelerator
from accelerate.utils import set_seed
from PIL import Image
from torch.utils.data import DataLoader, Dataset
from transformers import SegformerForSemanticSegmentation, SegformerImageProcessor

app = typer.Typer()


class Scenes(Dataset):
    def __init__(self, root: Path, processor):
        self.pictures = sorted((root / "images").glob("*.jpg"))
        self.processor = processor

    def __len__(self):
        return len(self.pictures)

    def __getitem__(self, i):
        picture = self.pictures[i]
        mask = Image.open(str(picture).replace("images", "masks").replace(".jpg", ".png"))
        out = self.processor(Image.open(picture), mask, return_tensors="pt")
        return {k: v.squeeze(0) for k, v in out.items()}


@app.command()
def main(
    data: Path = typer.Option(Path("scenes"), help="folder of images and masks"),
    base: str = typer.Option("nvidia/mit-b2"),
    epochs: int = typer.Option(60),
    batch_size: int = typer.Option(8),
    workers: int = typer.Option(4),
    lr: float = typer.Option(6e-5),
    out: Path = typer.Option(Path("segformer")),
    seed: int = 3,
):
    set_seed(seed)
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
    processor = SegformerImageProcessor(size={"height": 512, "width": 512}, do_reduce_labels=False)
    labels = json.loads((data / "labels.json").read_text())
    model = SegformerForSemanticSegmentation.from_pretrained(base, num_labels=len(labels))
    loader = DataLoader(Scenes(data, processor), batch_size=batch_size, shuffle=True, num_workers=workers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.PolynomialLR(optimizer, total_iters=epochs * len(loader))
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    accelerator.register_for_checkpointing(schedule)
    newest = sorted(out.glob("epoch_*"), key=lambda p: int(p.name.split("_")[1]))
    first = 0
    if newest:
        accelerator.load_state(newest[-1])
        first = int(newest[-1].name.split("_")[1]) + 1
    for epoch in range(first, epochs):
        model.train()
        for batch in loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
        accelerator.print(epoch, loss.item())
        accelerator.save_state(out / f"epoch_{epoch}")


if __name__ == "__main__":
    app()
