import argparse

import torch
import torch.nn.functional as F
from ogb.nodeproppred import Evaluator, PygNodePropPredDataset
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import SAGEConv

ap = argparse.ArgumentParser()
ap.add_argument("--hidden", type=int, default=256)
ap.add_argument("--layers", type=int, default=3)
ap.add_argument("--epochs", type=int, default=20)
ap.add_argument("--batch_size", type=int, default=1024)
ap.add_argument("--runs_dir", default="/scratch/sage")
args = ap.parse_args()
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class SAGE(torch.nn.Module):
    def __init__(self, inside, hidden, outside, layers):
        super().__init__()
        self.convs = torch.nn.ModuleList()
        self.convs.append(SAGEConv(inside, hidden))
        for _ in range(layers - 2):
            self.convs.append(SAGEConv(hidden, hidden))
        self.convs.append(SAGEConv(hidden, outside))

    def forward(self, x, edges):
        for conv in self.convs[:-1]:
            x = F.dropout(F.relu(conv(x, edges)), p=0.5, training=self.training)
        return self.convs[-1](x, edges)


dataset = PygNodePropPredDataset("ogbn-products", root="dataset")
data = dataset[0]
train_idx = dataset.get_idx_split()["train"]
loader = NeighborLoader(
    data,
    input_nodes=train_idx,
    num_neighbors=[15, 10, 5],
    batch_size=args.batch_size,
    shuffle=True,
    num_workers=12,
    persistent_workers=True,
)
model = SAGE(100, args.hidden, 47, args.layers).to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
evaluator = Evaluator(name="ogbn-products")


def train():
    model.train()
    seen = correct = 0
    for batch in loader:
        batch = batch.to(device)
        optimizer.zero_grad()
        out = model(batch.x, batch.edge_index)[: batch.batch_size]
        y = batch.y[: batch.batch_size].squeeze()
        loss = F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        correct += int((out.argmax(-1) == y).sum())
        seen += batch.batch_size
    return correct / seen


for epoch in range(1, args.epochs + 1):
    accuracy = train()
    print(f"Epoch {epoch:02d} train {accuracy:.4f}")
    if epoch % 5 == 0:
        torch.save({"epoch": epoch, "model": model.state_dict()}, f"{args.runs_dir}/sage_{epoch}.pt")
