import functools

import jax
import optax
import tensorflow_datasets as tfds
from flax.training import checkpoints

import models


def one_step(apply, state, batch):
    grads = jax.grad(lambda weights: apply(weights, batch).mean())(state.params)
    return state.apply_gradients(grads=grads)


def fit(config, workdir):
    builder = tfds.builder(config.dataset)
    builder.download_and_prepare()
    per_epoch = builder.info.splits["train"].num_examples // config.batch_size
    kind = getattr(models, config.model)
    net = kind(num_classes=264)
    state = net.start(optax.sgd(config.rate))
    state = checkpoints.restore_checkpoint(workdir, state)
    step_fn = jax.pmap(functools.partial(one_step, net.apply), axis_name="devices")
    batches = builder.as_dataset(split="train", batch_size=config.batch_size)
    for count, batch in zip(range(int(state.step), per_epoch * config.num_epochs), batches):
        state = step_fn(state, batch)
        if count % (5 * per_epoch) == 0:
            checkpoints.save_checkpoint(workdir, state, count, keep=2)
