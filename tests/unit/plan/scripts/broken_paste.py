import torch
import torch.nn as nn
from torch.utils.data import DataLoader
from torchvision import datasets, models, transforms

BATCH_SIZE = 32
EPOCHS = 12

train_ds = datasets.Food101("data", split="train", transform=transforms.RandomResizedCrop(224)
train_dl = DataLoader(train_ds, batch_size=BATCH_SIZE, shuffle=True, num_workers=4)

model = models.mobilenet_v2(num_classes=101)
model = model.cuda()
opt = torch.optim.SGD(model.parameters(), lr=0.05)

for epoch in range(EPOCHS):
    for x, y in train_dl
        loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
        loss.backward()
        opt.step()
    torch.save(model.state_dict(), "last.pt")
