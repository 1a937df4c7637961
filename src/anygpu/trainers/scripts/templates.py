"""Fill script templates: `{NAME}` is replaced by Python source, `{NAME!t}` by plain text, `{{` by a brace."""

from __future__ import annotations

import pprint
import re
from dataclasses import fields
from typing import Any

from anygpu.trainers.config import TrainingConfig

_PLACE = re.compile(r"\{\{|\}\}|\{([A-Z_]+)(!t)?\}")
PROGRESS = """\
def progress(epoch, total_epochs, **metrics):
    data = {"epoch": epoch, "total_epochs": total_epochs, "progress": epoch / total_epochs, "metrics": metrics}
    print(json.dumps({"type": "progress", "data": data}), flush=True)
"""


def fill(template: str, **values: Any) -> str:
    def put(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        value = values[match[1]]
        return str(value) if match[2] else pprint.pformat(value, sort_dicts=False, width=100)

    return _PLACE.sub(put, template)


def settings_of(config: TrainingConfig) -> dict[str, Any]:
    """Return the common settings that differ from their defaults, and the options, in one dictionary."""
    usual = TrainingConfig()
    given = {each.name: getattr(config, each.name) for each in fields(config) if each.name != "options"}
    changed = {name: value for name, value in given.items() if value != getattr(usual, name)}
    return {**changed, **config.options}
