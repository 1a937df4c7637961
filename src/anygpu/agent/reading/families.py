"""Every family of output we read, in the order they are asked. The first that knows a line has it."""

from __future__ import annotations

from anygpu.agent.reading import (
    boosting,
    generic,
    huggingface,
    json_progress,
    keras,
    lightning,
    pytorch,
    sklearn,
    tqdm,
    ultralytics,
)

FAMILIES = (
    json_progress.read,
    huggingface.read,
    ultralytics.read,
    tqdm.read,
    keras.read,
    lightning.read,
    boosting.read,
    pytorch.read,
    sklearn.read,
    generic.read,
)
