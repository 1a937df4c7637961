import pickle
from pathlib import Path

import fire
import torch
from torch import nn
from torch.nn import functional as F


class CharLM(nn.Module):
    def __init__(self, vocab, dim, layers):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.rnn = nn.GRU(dim, dim, num_layers=layers, batch_first=True, dropout=0.1)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids, state=None):
        out, state = self.rnn(self.embed(ids), state)
        return self.head(out), state


def sample_batch(ids, batch, length):
    starts = torch.randint(0, len(ids) - length - 1, (batch,))
    rows = torch.stack([ids[s : s + length + 1] for s in starts])
    return rows[:, :-1].cuda(), rows[:, 1:].cuda()


def train(
    corpus: str = "corpus/tales.txt",
    steps: int = 12_000,
    batch: int = 96,
    length: int = 256,
    dim: int = 768,
    layers: int = 2,
    lr: float = 2e-3,
    out: str = "charlm",
):
    """Train a character model."""
    text = Path(corpus).read_text(encoding="utf8")
    letters = sorted(set(text))
    ids = torch.tensor([letters.index(c) for c in text])
    model = CharLM(len(letters), dim, layers).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, lr, total_steps=steps)
    for step in range(steps):
        x, y = sample_batch(ids, batch, length)
        logits, _ = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        if step % 200 == 0:
            print(f"{step:6d} {loss.item():.3f}")
    folder = Path(out)
    folder.mkdir(exist_ok=True)
    torch.save(model.state_dict(), folder / "model.pt")
    (folder / "letters.pkl").write_bytes(pickle.dumps(letters))


if __name__ == "__main__":
    fire.Fire(train)
