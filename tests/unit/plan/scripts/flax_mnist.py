"""Digits with flax linen and optax."""
import jax
import jax.numpy as jnp
import ml_collections
import optax
import tensorflow_datasets as tfds
from flax import linen as nn
from flax.training import checkpoints, train_state


class CNN(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu(nn.Conv(features=32, kernel_size=(3, 3))(x))
        x = nn.avg_pool(x, window_shape=(2, 2), strides=(2, 2))
        x = x.reshape((x.shape[0], -1))
        x = nn.relu(nn.Dense(features=256)(x))
        return nn.Dense(features=10)(x)


def get_config():
    config = ml_collections.ConfigDict()
    config.learning_rate = 0.1
    config.momentum = 0.9
    config.batch_size = 128
    config.num_epochs = 10
    return config


@jax.jit
def train_step(state, images, labels):
    def loss_fn(params):
        logits = state.apply_fn({"params": params}, images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    grads = jax.grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads)


def main(workdir="/tmp/flax_run"):
    config = get_config()
    ds = tfds.load("mnist", split="train", batch_size=-1)
    rng = jax.random.key(0)
    cnn = CNN()
    params = cnn.init(rng, jnp.ones([1, 28, 28, 1]))["params"]
    tx = optax.sgd(config.learning_rate, config.momentum)
    state = train_state.TrainState.create(apply_fn=cnn.apply, params=params, tx=tx)
    state = checkpoints.restore_checkpoint(workdir, state)
    steps_per_epoch = len(ds["image"]) // config.batch_size
    for epoch in range(1, config.num_epochs + 1):
        for i in range(steps_per_epoch):
            lo = i * config.batch_size
            state = train_step(state, ds["image"][lo : lo + 128], ds["label"][lo : lo + 128])
        checkpoints.save_checkpoint(workdir, state, epoch, keep=3)


if __name__ == "__main__":
    main()
