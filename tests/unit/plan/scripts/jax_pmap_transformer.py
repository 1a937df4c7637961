import functools

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax

BATCH = 64
SEQ = 256
D_MODEL = 512
N_LAYERS = 8
NUM_STEPS = 50_000


def forward(tokens):
    h = hk.Embed(32000, D_MODEL)(tokens)
    for _ in range(N_LAYERS):
        attn = hk.MultiHeadAttention(8, 64, w_init=hk.initializers.VarianceScaling(1.0))
        h = h + attn(h, h, h)
        h = h + hk.nets.MLP([4 * D_MODEL, D_MODEL])(h)
    return hk.Linear(32000)(h)


net = hk.transform(forward)
opt = optax.adamw(3e-4)


def loss_fn(params, rng, batch):
    logits = net.apply(params, rng, batch[:, :-1])
    return optax.softmax_cross_entropy_with_integer_labels(logits, batch[:, 1:]).mean()


@functools.partial(jax.pmap, axis_name="devices")
def update(params, opt_state, rng, batch):
    loss, grads = jax.value_and_grad(loss_fn)(params, rng, batch)
    grads = jax.lax.pmean(grads, "devices")
    updates, opt_state = opt.update(grads, opt_state)
    return optax.apply_updates(params, updates), opt_state, loss


def main():
    data = np.memmap("tokens.bin", dtype=np.uint16, mode="r")
    rng = jax.random.PRNGKey(0)
    params = net.init(rng, jnp.zeros((1, SEQ), jnp.int32))
    opt_state = opt.init(params)
    for step in range(NUM_STEPS):
        idx = np.random.randint(0, len(data) - SEQ, BATCH)
        batch = np.stack([data[i : i + SEQ] for i in idx])
        params, opt_state, loss = update(params, opt_state, rng, batch)
        if step % 100 == 0:
            print(step, loss)


main()
