"""Train a small neural network on scikit-learn's handwritten digits. It can be stopped and resumed at any time.

    anygpu run train.py --epochs 80

Every ten epochs it gives anygpu a checkpoint, from which the next attempt starts. The random numbers of an epoch
depend only on its number, so a resumed run ends with the same weights.
"""

import argparse
import os
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

import anygpu

Array = NDArray[np.float64]
Weights = dict[str, Array]
SAVE_EVERY = 10


def main() -> None:
    args = arguments()
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = images[order] / 16.0, labels[order]
    training, held_out = slice(400, None), slice(0, 400)
    weights, first = load_weights(args.hidden)
    print(f"training on {len(labels) - 400} digits from epoch {first}, process {os.getpid()}", flush=True)
    for epoch in range(first, args.epochs + 1):
        loss = train_epoch(weights, images[training], labels[training], epoch)
        accuracy = float((forward(weights, images[held_out])[1].argmax(1) == labels[held_out]).mean())
        anygpu.log(loss=loss, accuracy=accuracy, step=epoch)
        anygpu.progress(epoch=epoch, epochs=args.epochs)
        print(f"epoch {epoch}/{args.epochs} loss={loss:.4f} accuracy={accuracy:.4f}", flush=True)
        stopping = anygpu.should_stop()  # the machine will be preempted: save and exit
        if epoch % SAVE_EVERY == 0 or epoch == args.epochs or stopping:
            save(weights, epoch)
        if stopping:
            break


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=80)
    parser.add_argument("--hidden", type=int, default=128)
    return parser.parse_args()


def load_weights(hidden: int) -> tuple[Weights, int]:
    """Return the weights and the first epoch: from the checkpoint if there is one, else initial values."""
    path = anygpu.resume_path()
    if path:
        kept = np.load(path)
        return {name: kept[name] for name in kept.files if name != "epoch"}, int(kept["epoch"]) + 1
    random = np.random.default_rng(1)
    sizes = (64, hidden, hidden, 10)
    weights = {f"w{n}": random.normal(0, (2 / a) ** 0.5, (a, b)) for n, (a, b) in enumerate(pairwise(sizes))}
    biases = {f"b{n}": np.zeros(size) for n, size in enumerate(sizes[1:])}
    momentum = {f"v{name}": np.zeros_like(value) for name, value in (weights | biases).items()}
    return weights | biases | momentum, 1


def train_epoch(weights: Weights, images: Array, labels: NDArray[np.int64], epoch: int) -> float:
    """Train on every image three times, each time shifted at random. Return the loss."""
    random = np.random.default_rng(1000 + epoch)
    rate = 0.04 / (1 + epoch / 6)
    losses = [
        train_step(weights, shown[batch], labels[batch], rate)
        for shown in (shift_images(images, random) for _ in range(3))
        for batch in np.array_split(random.permutation(len(labels)), 44)
    ]
    return float(np.mean(losses))


def shift_images(images: Array, random: np.random.Generator) -> Array:
    """Shift each image by up to one pixel in a random direction."""
    count, pixels = len(images), np.arange(8)
    square = np.pad(images.reshape(-1, 8, 8), ((0, 0), (1, 1), (1, 1)))
    down, across = random.integers(0, 3, (2, count, 1, 1))
    one_by_one = np.arange(count)[:, None, None]
    moved: Array = square[one_by_one, down + pixels[:, None], across + pixels]
    return moved.reshape(-1, 64)


def forward(weights: Weights, images: Array) -> tuple[list[Array], Array]:
    """Return the activations of each layer and the probabilities of the ten digits."""
    layers = [images]
    for n in range(2):
        layers.append(np.maximum(layers[-1] @ weights[f"w{n}"] + weights[f"b{n}"], 0))
    scores = layers[-1] @ weights["w2"] + weights["b2"]
    probabilities = np.exp(scores - scores.max(1, keepdims=True))
    return layers, probabilities / probabilities.sum(1, keepdims=True)


def train_step(weights: Weights, images: Array, labels: NDArray[np.int64], rate: float) -> float:
    layers, probabilities = forward(weights, images)
    right = probabilities[np.arange(len(labels)), labels]
    error = probabilities.copy()
    error[np.arange(len(labels)), labels] -= 1
    error /= len(labels)
    for n in (2, 1, 0):
        below = (error @ weights[f"w{n}"].T) * (layers[n] > 0)
        apply_gradient(weights, f"w{n}", layers[n].T @ error, rate)
        apply_gradient(weights, f"b{n}", error.sum(0), rate)
        error = below
    return float(-np.log(right + 1e-12).mean())


def apply_gradient(weights: Weights, name: str, slope: Array, rate: float) -> None:
    weights[f"v{name}"] = 0.9 * weights[f"v{name}"] - rate * slope
    weights[name] = weights[name] + weights[f"v{name}"]


def save(weights: Weights, epoch: int) -> None:
    np.savez("model.npz", epoch=epoch, **weights)  # type: ignore[arg-type]
    anygpu.checkpoint("model.npz", step=epoch)


if __name__ == "__main__":
    main()
