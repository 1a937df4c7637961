import time
from dataclasses import dataclass

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn
import tyro
from torch.distributions import Categorical


@dataclass
class Args:
    env_id: str = "CartPole-v1"
    total_timesteps: int = 500_000
    learning_rate: float = 2.5e-4
    num_envs: int = 4
    num_steps: int = 128
    gamma: float = 0.99
    lam: float = 0.95
    num_minibatches: int = 4
    update_epochs: int = 4
    clip: float = 0.2
    cuda: bool = True


class Agent(nn.Module):
    def __init__(self, n_obs, n_act):
        super().__init__()
        self.critic = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
        self.actor = nn.Sequential(nn.Linear(n_obs, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, n_act))

    def act(self, obs, action=None):
        dist = Categorical(logits=self.actor(obs))
        action = dist.sample() if action is None else action
        return action, dist.log_prob(action), dist.entropy(), self.critic(obs).squeeze(-1)


if __name__ == "__main__":
    args = tyro.cli(Args)
    batch_size = args.num_envs * args.num_steps
    minibatch = batch_size // args.num_minibatches
    num_updates = args.total_timesteps // batch_size
    device = torch.device("cuda" if torch.cuda.is_available() and args.cuda else "cpu")
    envs = gym.vector.SyncVectorEnv([lambda: gym.make(args.env_id) for _ in range(args.num_envs)])
    agent = Agent(np.prod(envs.single_observation_space.shape), envs.single_action_space.n).to(device)
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.learning_rate, eps=1e-5)

    obs = torch.zeros((args.num_steps, args.num_envs) + envs.single_observation_space.shape, device=device)
    actions, logps, rewards, dones, values = (torch.zeros((args.num_steps, args.num_envs), device=device) for _ in range(5))
    now = torch.tensor(envs.reset()[0], device=device)
    done = torch.zeros(args.num_envs, device=device)
    begun = time.time()
    for update in range(1, num_updates + 1):
        for t in range(args.num_steps):
            obs[t], dones[t] = now, done
            with torch.no_grad():
                actions[t], logps[t], _, values[t] = agent.act(now)
            nxt, rew, term, trunc, _ = envs.step(actions[t].long().cpu().numpy())
            rewards[t] = torch.tensor(rew, device=device)
            now, done = torch.tensor(nxt, device=device), torch.tensor(term | trunc, device=device).float()
        with torch.no_grad():
            following = agent.critic(now).squeeze(-1)
            adv, last = torch.zeros_like(rewards), 0
            for t in reversed(range(args.num_steps)):
                alive = 1.0 - (done if t == args.num_steps - 1 else dones[t + 1])
                after = following if t == args.num_steps - 1 else values[t + 1]
                last = rewards[t] + args.gamma * after * alive - values[t] + args.gamma * args.lam * alive * last
                adv[t] = last
            returns = adv + values
        flat = [x.reshape(-1, *x.shape[2:]) for x in (obs, actions, logps, adv, returns)]
        order = np.arange(batch_size)
        for epoch in range(args.update_epochs):
            np.random.shuffle(order)
            for start in range(0, batch_size, minibatch):
                o, a, old, ad, ret = (x[order[start : start + minibatch]] for x in flat)
                _, new, entropy, value = agent.act(o, a.long())
                ratio = (new - old).exp()
                policy = torch.max(-ad * ratio, -ad * ratio.clamp(1 - args.clip, 1 + args.clip)).mean()
                loss = policy - 0.01 * entropy.mean() + 0.5 * (value - ret).pow(2).mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        print(update, int(update * batch_size / (time.time() - begun)), "steps a second")
    torch.save(agent.state_dict(), "agent.pt")
