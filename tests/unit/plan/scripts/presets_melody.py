"""A language model of melodies: its size is picked by name, the rest are defaults that the script overrides."""

import os
import sys

import torch
from presets_melody_net import Composer, Node, Runner
from torch.utils.data import Dataset


class Melodies(Dataset):
    def __init__(self, path, length):
        self.notes = open("melodies.txt").read().split()
        self.known = sorted(set(self.notes))
        self.length = length

    def __len__(self):
        return len(self.notes) - self.length


def settings():
    tree = Node()
    tree.run = Node()
    tree.run.folder = "out/melody"
    tree.net = Composer.defaults()
    tree.net.size = "small"
    tree.train = Runner.defaults()
    return tree


if __name__ == "__main__":
    tree = settings()
    tree.merge(sys.argv[1:])
    data = Melodies("melodies.txt", 256)
    tree.net.tokens = len(data.known)
    tree.net.length = 256
    model = Composer(tree.net)
    runner = Runner(tree.train, model, data)

    def after_batch(runner):
        if runner.count % 400 == 0:
            torch.save(model.state_dict(), os.path.join(tree.run.folder, "composer.pt"))

    runner.after_batch = after_batch
    runner.go()
