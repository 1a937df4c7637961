import os
from glob import glob

import albumentations as A
import cv2
import segmentation_models_pytorch as smp
import torch
import torch.distributed as dist
from albumentations.pytorch import ToTensorV2
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

# torchrun --nproc_per_node=8 torchrun_smp_unet.py
ROOT = "/mnt/disks/tiles"
EPOCHS = 75
BATCH_PER_GPU = 12


class Tiles(Dataset):
    def __init__(self, root, tf):
        self.images = sorted(glob(f"{root}/images/*.png"))
        self.tf = tf

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image = cv2.cvtColor(cv2.imread(self.images[i]), cv2.COLOR_BGR2RGB)
        mask = cv2.imread(self.images[i].replace("images", "masks"), 0)
        out = self.tf(image=image, mask=mask)
        return out["image"].float() / 255, out["mask"].long()


def main():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    tf = A.Compose([A.RandomCrop(512, 512), A.HorizontalFlip(), A.RandomBrightnessContrast(), ToTensorV2()])
    data = Tiles(ROOT, tf)
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=BATCH_PER_GPU, sampler=sampler, num_workers=6, pin_memory=True)

    model = smp.Unet("resnet50", encoder_weights="imagenet", in_channels=3, classes=7).cuda(local_rank)
    model = DistributedDataParallel(model, device_ids=[local_rank])
    loss_fn = smp.losses.DiceLoss("multiclass")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scaler = torch.amp.GradScaler("cuda")
    start = 0
    if os.path.exists("snapshot.pt"):
        snap = torch.load("snapshot.pt", map_location=f"cuda:{local_rank}")
        model.module.load_state_dict(snap["model"])
        optimizer.load_state_dict(snap["optimizer"])
        start = snap["epoch"] + 1
    for epoch in range(start, EPOCHS):
        sampler.set_epoch(epoch)
        for images, masks in loader:
            images, masks = images.cuda(local_rank), masks.cuda(local_rank)
            with torch.amp.autocast("cuda"):
                loss = loss_fn(model(images), masks)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        if dist.get_rank() == 0:
            torch.save({"model": model.module.state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch}, "snapshot.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
