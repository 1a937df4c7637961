"""Objects that were recorded from a real control plane, and builders for the rest."""

import json
from pathlib import Path
from typing import Any

from anygpu.backends.contract import LaunchRequest
from anygpu.spec.sections import Resources

RECORDED = Path(__file__).with_name("recorded")
Json = dict[str, Any]


def recorded(name: str) -> Any:
    return json.loads((RECORDED / f"{name}.json").read_text())


def launch(resources: Resources | None = None, **fields: Any) -> LaunchRequest:
    values = {
        "name": "anygpu-" + "ab" * 16 + "-1",
        "job_id": "abababab-abab-7bab-abab-abababababab",
        "attempt": 1,
        "ticket": "the ticket",
        "agent_url": "http://127.0.0.1:1",
        "max_run_s": 3600,
        **fields,
    }
    return LaunchRequest(resources=resources or Resources(), **values)
