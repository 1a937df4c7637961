"""What a command prints: lines for people, or one JSON document for programs."""

import json
from collections.abc import Iterable
from typing import Any


def emit_json(value: Any) -> None:
    print(json.dumps(value, indent=2, ensure_ascii=False), flush=True)


def emit_json_line(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=False), flush=True)


def emit(lines: Iterable[str]) -> None:
    for line in lines:
        print(line)
