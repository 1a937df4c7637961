"""Generate a standalone Python script for a trainer, its settings and a dataset.

The script uses the framework directly, not anygpu, and prints progress as JSON lines. For a trainer without
a template, the script is short and uses `anygpu.trainers`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.registry import find
from anygpu.trainers.scripts.templates import fill, settings_of

TEMPLATES = {"tabular": "tabular", "yolo": "yolo", "torch-classifier": "torch_classifier"}
Write = Callable[[TrainingConfig, str], str]


def script(trainer: str, settings: Mapping[str, Any], dataset: str = "") -> str:
    """Return the text of the script; raise BadConfig if a setting is invalid or the script cannot support it."""
    kind = find(trainer)
    config = kind.parse_settings(settings)
    if kind.name not in TEMPLATES:
        extras = ",".join(kind.extras(config))
        return fill(
            GENERIC, TRAINER=trainer, SETTINGS=settings_of(config), DATASET=dataset, EXTRAS=f"[{extras}]"
        )
    write: Write = import_module(f"anygpu.trainers.scripts.{TEMPLATES[kind.name]}").write_script
    return write(config, dataset)


GENERIC = '''\
"""Trains with anygpu's trainer {TRAINER!t}. Needs: pip install 'anygpu{EXTRAS!t}'

    python train.py [dataset]       a second run continues from the last checkpoint
"""

import sys
from pathlib import Path

from anygpu.trainers import PrintingContext, get_trainer

DATASET = sys.argv[1] if len(sys.argv) > 1 else {DATASET}
SETTINGS = {SETTINGS}
OUTPUT = Path("outputs")

result = get_trainer(
    {TRAINER},
    dataset_path=DATASET or None,
    output_dir=OUTPUT,
    context=PrintingContext(OUTPUT, resume=True),
    **SETTINGS,
).train()
print(f"best weights: {{result.best}}", file=sys.stderr)
'''
