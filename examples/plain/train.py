"""A script that knows nothing of anygpu: what it prints is enough for progress and curves."""

import argparse
import math
import time

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int, default=5)
parser.add_argument("--pause", type=float, default=0.05)
args = parser.parse_args()

for epoch in range(1, args.epochs + 1):
    time.sleep(args.pause)
    print(
        f"Epoch {epoch}/{args.epochs} loss={math.exp(-epoch / 3):.4f} accuracy={1 - math.exp(-epoch / 2):.4f}"
    )
print("done")
