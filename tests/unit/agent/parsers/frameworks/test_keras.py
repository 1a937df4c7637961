"""Output of Keras."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def test_keras_2_bars_are_read(points_of: Callable[..., Any], progress_of: Callable[..., Any]) -> None:
    output = (
        "Epoch 2/5\n"
        " 50/100 [=========>....................] - ETA: 7s - loss: 0.5000 - accuracy: 0.7000\r"
        "100/100 [==============================] - 10s 6ms/step - loss: 0.4000 - accuracy: 0.8000 - val_loss: 0.6000\n"
    )
    assert points_of(output) == [
        ("loss", 150, 0.5), ("accuracy", 150, 0.7),
        ("loss", 200, 0.4), ("accuracy", 200, 0.8), ("val_loss", 200, 0.6),
    ]  # fmt: skip
    assert progress_of(output) == {"fraction": 0.4, "step": 200, "steps": 500, "epoch": 2, "epochs": 5}
