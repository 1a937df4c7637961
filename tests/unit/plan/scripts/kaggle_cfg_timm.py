import gc
import os

import albumentations as A
import cv2
import numpy as np
import pandas as pd
import timm
import torch
import torch.nn as nn
from sklearn.model_selection import StratifiedKFold
from torch.cuda.amp import GradScaler, autocast
from torch.utils.data import DataLoader, Dataset


class CFG:
    seed = 42
    model_name = "tf_efficientnet_b3_ns"
    size = 384
    train_batch_size = 24
    valid_batch_size = 48
    num_workers = 2
    epochs = 10
    lr = 1e-4
    n_fold = 5
    trn_fold = [0]
    train_csv = "../input/cassava/train.csv"
    image_dir = "/kaggle/input/cassava/train_images"


class TrainDataset(Dataset):
    def __init__(self, df, transform):
        self.df, self.transform = df, transform

    def __len__(self):
        return len(self.df)

    def __getitem__(self, idx):
        image = cv2.imread(os.path.join(CFG.image_dir, self.df.image_id[idx]))
        return self.transform(image=image)["image"], self.df.label[idx]


class CustomModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = timm.create_model(CFG.model_name, pretrained=True, num_classes=5)

    def forward(self, x):
        return self.model(x)


def train_fn(loader, model, criterion, optimizer, device):
    scaler = GradScaler()
    model.train()
    for step, (images, labels) in enumerate(loader):
        with autocast():
            loss = criterion(model(images.to(device)), labels.to(device))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()


def train_loop(folds, fold):
    device = torch.device("cuda")
    train_df = folds[folds.fold != fold].reset_index(drop=True)
    tf = A.Compose([A.RandomResizedCrop(CFG.size, CFG.size), A.Normalize()])
    train_loader = DataLoader(
        TrainDataset(train_df, tf), batch_size=CFG.train_batch_size, shuffle=True, num_workers=CFG.num_workers
    )
    valid_loader = DataLoader(TrainDataset(folds, tf), batch_size=CFG.valid_batch_size, num_workers=CFG.num_workers)
    model = CustomModel().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=CFG.lr)
    best = 0
    for epoch in range(CFG.epochs):
        train_fn(train_loader, model, nn.CrossEntropyLoss(), optimizer, device)
        score = np.random.rand()
        if score > best:
            best = score
            torch.save({"model": model.state_dict()}, f"{CFG.model_name}_fold{fold}_best.pth")
    gc.collect()


folds = pd.read_csv(CFG.train_csv)
for n, (_, val) in enumerate(StratifiedKFold(CFG.n_fold).split(folds, folds.label)):
    folds.loc[val, "fold"] = n
for fold in CFG.trn_fold:
    train_loop(folds, fold)
