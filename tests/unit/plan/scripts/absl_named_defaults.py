"""Letters with flax's first API: flags with named defaults, a network that is never called by its name."""

import jax
import jax.numpy as jnp
import tensorflow_datasets as tfds
from absl import app, flags
from flax import nn, optim

FLAGS = flags.FLAGS
flags.DEFINE_float("rate", default=0.1, help="learning rate")
flags.DEFINE_integer("batch_size", default=200, help="batch")
flags.DEFINE_integer("num_epochs", default=14, help="passes")


class Letters(nn.Module):
    def apply(self, x):
        x = nn.Conv(x, features=24, kernel_size=(3, 3))
        x = x.reshape((x.shape[0], -1))
        return nn.Dense(x, features=26)


def main(_):
    data = tfds.load("fashion_mnist", split="train", batch_size=-1)
    _, start = Letters.init_by_shape(jax.random.PRNGKey(0), [((1, 28, 28, 1), jnp.float32)])
    optimiser = optim.Momentum(learning_rate=FLAGS.rate).create(nn.Model(Letters, start))
    for epoch in range(FLAGS.num_epochs):
        for at in range(0, len(data), FLAGS.batch_size):
            grads = jax.grad(lambda net, batch: net(batch).mean())(optimiser.target, data[at])
            optimiser = optimiser.apply_gradient(grads)


if __name__ == "__main__":
    app.run(main)
