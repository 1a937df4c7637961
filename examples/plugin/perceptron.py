"""A model plugin: it knows nothing of anygpu, and runs here, on your machines and in any cloud as it is.

It tells flowers apart by their sizes, in plain Python.
"""

import json
import math
from pathlib import Path

from training.base import BaseModel
from training.registry import registry


@registry.register("perceptron")
class Perceptron(BaseModel):
    def __init__(self, config):
        super().__init__(config)
        self.weights = None
        self.next_epoch = 0

    def train(self, train_loader, val_loader, callbacks):
        for epoch in range(self.next_epoch, self.config["epochs"]):
            losses = [self.step(row, target) for batch in train_loader for row, target in rows(batch)]
            right = [self.guess(row) == target for batch in val_loader for row, target in rows(batch)]
            metrics = {"loss": sum(losses) / len(losses), "accuracy": sum(right) / len(right)}
            if callbacks:
                callbacks.on_epoch_end(epoch, metrics)
                callbacks.on_checkpoint_save(epoch, self.save(epoch))

    def step(self, row, target):
        likely = self.likelihoods(row)
        for of_class, weights in enumerate(self.weights):
            error = likely[of_class] - (of_class == target)
            for at, number in enumerate(row):
                weights[at] -= self.config["learning_rate"] * error * number
        return -math.log(max(likely[target], 1e-9))

    def likelihoods(self, row):
        if self.weights is None:
            self.weights = [[0.0] * len(row) for _ in range(self.config["num_classes"])]
        scores = [sum(w * x for w, x in zip(weights, row, strict=True)) for weights in self.weights]
        powers = [math.exp(score - max(scores)) for score in scores]
        return [power / sum(powers) for power in powers]

    def guess(self, row):
        likely = self.likelihoods(row)
        return likely.index(max(likely))

    def save(self, epoch):
        path = Path(self.config["checkpoint_dir"]) / "perceptron.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"weights": self.weights, "next_epoch": epoch + 1}))
        return path

    def load_checkpoint(self, path):
        saved = json.loads(Path(path).read_text())
        self.weights, self.next_epoch = saved["weights"], saved["next_epoch"]


def rows(batch):
    inputs, targets = batch
    return [([1.0, *map(float, row)], int(target)) for row, target in zip(inputs, targets, strict=True)]
