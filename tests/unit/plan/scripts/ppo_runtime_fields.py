"""PPO on a racing game: some fields are filled in when it runs."""

from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
import tyro
from torch import nn


@dataclass
class Setup:
    game: str = "CarRacing-v2"
    total_timesteps: int = 4_000_000
    copies: int = 16
    horizon: int = 256
    parts: int = 8
    passes: int = 6
    cuda: bool = True
    # known when it runs
    batch_size: int = 0
    minibatch_size: int = 0


class Driver(nn.Module):
    def __init__(self, games):
        super().__init__()
        self.eyes = nn.Sequential(nn.Conv2d(4, 32, 8, stride=4), nn.Conv2d(32, 64, 4, stride=2), nn.Flatten())
        self.think = nn.Linear(64 * 10 * 10, 256)
        self.act = nn.Linear(256, games.single_action_space.n)
        self.judge = nn.Linear(256, 1)


if __name__ == "__main__":
    setup = tyro.cli(Setup)
    setup.batch_size = int(setup.copies * setup.horizon)
    setup.minibatch_size = int(setup.batch_size // setup.parts)
    device = torch.device("cuda" if torch.cuda.is_available() and setup.cuda else "cpu")
    games = gym.make_vec(setup.game, setup.copies)
    driver = Driver(games).to(device)
    optimiser = torch.optim.Adam(driver.parameters())
    for update in range(setup.total_timesteps // setup.batch_size):
        seen = games.rollout(driver, setup.horizon)
        order = np.arange(setup.batch_size)
        for epoch in range(setup.passes):
            np.random.shuffle(order)
            for start in range(0, setup.batch_size, setup.minibatch_size):
                loss = driver.loss(seen[order[start : start + setup.minibatch_size]])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
