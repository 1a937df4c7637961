import torch
from torch import nn
from torch.utils.data import DataLoader


class Node:
    def merge(self, words):
        for word in words:
            key, value = word.lstrip("-").split("=")
            self.__dict__[key] = value

    def update(self, table):
        self.__dict__.update(table)


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.before = nn.LayerNorm(cfg.width)
        self.mix = nn.Linear(cfg.width, 3 * cfg.width)
        self.out = nn.Linear(cfg.width, cfg.width)
        self.up = nn.Linear(cfg.width, 4 * cfg.width)
        self.down = nn.Linear(4 * cfg.width, cfg.width)


class Composer(nn.Module):
    @staticmethod
    def defaults():
        cfg = Node()
        cfg.size = "huge"
        cfg.depth = None
        cfg.width = None
        cfg.tokens = None
        cfg.length = None
        return cfg

    def __init__(self, cfg):
        super().__init__()
        cfg.update(
            {
                "huge": dict(depth=48, width=1600),
                "large": dict(depth=24, width=1024),
                "small": dict(depth=8, width=320),
                "toy": dict(depth=2, width=32),
            }[cfg.size]
        )
        self.words = nn.Embedding(cfg.tokens, cfg.width)
        self.places = nn.Embedding(cfg.length, cfg.width)
        self.layers = nn.ModuleList([Layer(cfg) for _ in range(cfg.depth)])
        self.head = nn.Linear(cfg.width, cfg.tokens, bias=False)

    @classmethod
    def from_pretrained(cls, name):
        from transformers import GPT2LMHeadModel

        cfg = cls.defaults()
        cfg.size = name
        cfg.tokens = 50257
        net = cls(cfg)
        net.load(GPT2LMHeadModel.from_pretrained(name).state_dict())
        return net


class Runner:
    @staticmethod
    def defaults():
        cfg = Node()
        cfg.num_workers = 3
        cfg.batch_size = 96
        cfg.max_iters = None
        return cfg

    def __init__(self, cfg, model, data):
        self.cfg, self.model, self.data, self.count = cfg, model, data, 0
        self.device = "cuda" if torch.cuda.is_available() else "cpu"

    def go(self):
        loader = DataLoader(self.data, batch_size=self.cfg.batch_size, num_workers=self.cfg.num_workers)
        optimiser = torch.optim.AdamW(self.model.parameters())
        batches = iter(loader)
        while True:
            loss = self.model(next(batches).to(self.device))
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            self.after_batch(self)
            self.count += 1
