"""Finds buoys: a detector of another repository, known only by the file of its weights."""

import argparse
from pathlib import Path

import torch
import yaml
from detector import losses, network, pictures
from torch.cuda import amp

HERE = Path(__file__).parent


def train(opt, device):
    out, epochs, batch, weights, threads = Path(opt.out), opt.epochs, opt.batch_size, opt.weights, opt.workers
    fast = device.type != "cpu"
    table = yaml.safe_load(open(opt.data))
    state = torch.load(weights)
    net = network(state["yaml"], classes=table["nc"]).to(device)
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01)
    first = 0
    if opt.resume:
        optimiser.load_state_dict(state["optimiser"])
        first = state["epoch"] + 1
    loader = pictures(table["train"], opt.size, batch, workers=threads)
    scaler = amp.GradScaler(enabled=fast)
    for epoch in range(first, epochs):
        for images, boxes in loader:
            with amp.autocast(enabled=fast):
                loss = losses(net(images.to(device)), boxes.to(device))
            scaler.scale(loss).backward()
            scaler.step(optimiser)
            scaler.update()
        torch.save({"net": net, "optimiser": optimiser.state_dict(), "epoch": epoch}, out / "last.pt")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--weights", default=HERE / "yolov5s.pt")
    parser.add_argument("--data", default="buoys.yaml")
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--size", type=int, default=640)
    parser.add_argument("--workers", type=int, default=7)
    parser.add_argument("--resume", nargs="?", const=True, default=False)
    parser.add_argument("--out", default="runs/buoys")
    opt = parser.parse_args()
    train(opt, torch.device("cuda:0"))
