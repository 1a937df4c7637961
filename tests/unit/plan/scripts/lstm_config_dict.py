import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

config = {
    "batch_size": 256,
    "hidden": 512,
    "num_layers": 2,
    "vocab": 10000,
    "n_epochs": 40,
    "lr": 1e-3,
}


class CharModel(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embedding = nn.Embedding(cfg["vocab"], cfg["hidden"])
        self.rnn = nn.GRU(cfg["hidden"], cfg["hidden"], cfg["num_layers"], batch_first=True)
        self.out = nn.Linear(cfg["hidden"], cfg["vocab"])

    def forward(self, x):
        return self.out(self.rnn(self.embedding(x))[0])


def evaluate(model, loader):
    model.eval()
    with torch.no_grad():
        total = sum(model(x.cuda()).mean().item() for x, _ in loader)
    model.train()
    return total


def run():
    data = torch.load("/data/chars/train.pt")
    train = DataLoader(TensorDataset(*data), batch_size=config["batch_size"], shuffle=True, num_workers=0)
    val = DataLoader(TensorDataset(*torch.load("/data/chars/val.pt")), batch_size=1024)
    model = CharModel(config).cuda()
    opt = torch.optim.RMSprop(model.parameters(), lr=config["lr"])
    for ep in range(config["n_epochs"]):
        for x, y in train:
            loss = nn.functional.cross_entropy(model(x.cuda()).transpose(1, 2), y.cuda())
            opt.zero_grad()
            loss.backward()
            opt.step()
            print(ep, loss.item(), evaluate(model, val))
    torch.save(model, "/data/chars/model.pt")


run()
