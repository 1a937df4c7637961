import sys

import torch
import yaml
from torch.utils.data import DataLoader
from torchvision import datasets, transforms
from torchvision.models import vit_b_16

with open("vit.yaml") as f:
    cfg = yaml.safe_load(f)

train_cfg = cfg["training"]
tf = transforms.Compose([transforms.Resize((cfg["img_size"], cfg["img_size"])), transforms.ToTensor()])
train_set = datasets.Flowers102(cfg["data_dir"], split="train", transform=tf, download=True)
loader = DataLoader(train_set, batch_size=train_cfg["batch_size"], shuffle=True, num_workers=train_cfg["num_workers"])
model = torch.nn.DataParallel(vit_b_16(num_classes=102)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=train_cfg["lr"])
for epoch in range(train_cfg["epochs"]):
    for x, y in loader:
        loss = torch.nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    torch.save(model.module.state_dict(), "vit_last.pt")
