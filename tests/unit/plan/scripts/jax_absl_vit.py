import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import tensorflow_datasets as tfds
from absl import app, flags, logging
from flax import linen as nn
from flax.training.train_state import TrainState

FLAGS = flags.FLAGS
flags.DEFINE_string("workdir", "runs/vit", "where checkpoints go")
flags.DEFINE_integer("batch_size", 512, "images a step")
flags.DEFINE_integer("num_train_steps", 30_000, "updates")
flags.DEFINE_integer("eval_every", 1_000, "steps between evaluations")
flags.DEFINE_float("base_lr", 1e-3, "peak learning rate")


class Block(nn.Module):
    dim: int
    heads: int

    @nn.compact
    def __call__(self, x):
        y = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(num_heads=self.heads)(y, y)
        y = nn.LayerNorm()(x)
        return x + nn.Dense(self.dim)(nn.gelu(nn.Dense(4 * self.dim)(y)))


class TinyViT(nn.Module):
    dim: int = 192
    depth: int = 9
    heads: int = 3
    classes: int = 100

    @nn.compact
    def __call__(self, x):
        x = nn.Conv(self.dim, (4, 4), strides=(4, 4))(x)
        x = x.reshape(x.shape[0], -1, self.dim)
        x = x + self.param("pos", nn.initializers.normal(0.02), (1, 64, self.dim))
        for _ in range(self.depth):
            x = Block(self.dim, self.heads)(x)
        return nn.Dense(self.classes)(nn.LayerNorm()(x).mean(axis=1))


def batches(split, batch_size):
    ds = tfds.load("cifar100", split=split, as_supervised=True)
    ds = ds.shuffle(50_000).repeat().batch(batch_size, drop_remainder=True).prefetch(4)
    return tfds.as_numpy(ds)


@functools.partial(jax.jit, donate_argnums=0)
def train_step(state, images, labels):
    def loss_fn(params):
        logits = state.apply_fn({"params": params}, images)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    loss, grads = jax.value_and_grad(loss_fn)(state.params)
    return state.apply_gradients(grads=grads), loss


def main(_):
    model = TinyViT()
    params = model.init(jax.random.PRNGKey(0), jnp.zeros((1, 32, 32, 3)))["params"]
    schedule = optax.warmup_cosine_decay_schedule(0.0, FLAGS.base_lr, 1000, FLAGS.num_train_steps)
    state = TrainState.create(apply_fn=model.apply, params=params, tx=optax.adamw(schedule, weight_decay=0.05))
    manager = ocp.CheckpointManager(FLAGS.workdir, options=ocp.CheckpointManagerOptions(max_to_keep=2))
    start = manager.latest_step() or 0
    if start:
        state = manager.restore(start, args=ocp.args.StandardRestore(state))
    stream = batches("train", FLAGS.batch_size)
    for step in range(start, FLAGS.num_train_steps):
        images, labels = next(stream)
        state, loss = train_step(state, np.float32(images) / 255.0, labels)
        if step % FLAGS.eval_every == 0:
            logging.info("step %d loss %.3f", step, loss)
            manager.save(step, args=ocp.args.StandardSave(state))


if __name__ == "__main__":
    app.run(main)
