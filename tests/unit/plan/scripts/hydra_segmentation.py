import hydra
import segmentation_models_pytorch as smp
import torch
from omegaconf import DictConfig
from torch.cuda.amp import GradScaler, autocast
from torch.utils.data import DataLoader

from data import RoadDataset


@hydra.main(version_base=None, config_path="hydra_conf", config_name="config")
def main(cfg: DictConfig):
    device = torch.device(cfg.device)
    model = smp.Unet(encoder_name=cfg.model.encoder, classes=cfg.model.classes, in_channels=3).to(device)
    train_set = RoadDataset(cfg.data.root, split="train", size=cfg.data.image_size)
    train_loader = DataLoader(
        train_set, batch_size=cfg.train.batch_size, shuffle=True, num_workers=cfg.train.num_workers, drop_last=True
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.train.lr)
    loss_fn = smp.losses.DiceLoss(mode="binary")
    scaler = GradScaler(enabled=cfg.train.amp)
    best = 0.0
    for epoch in range(cfg.train.epochs):
        model.train()
        for images, masks in train_loader:
            images, masks = images.to(device), masks.to(device)
            optimizer.zero_grad()
            with autocast(enabled=cfg.train.amp):
                loss = loss_fn(model(images), masks)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        if (epoch + 1) % cfg.train.save_every == 0:
            torch.save({"model": model.state_dict(), "epoch": epoch}, f"{cfg.out}/epoch_{epoch}.pth")


if __name__ == "__main__":
    main()
