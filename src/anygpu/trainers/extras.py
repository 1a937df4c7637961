"""What a trainer needs to be installed, as requirements: the packages of its extras."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from anygpu.trainers.errors import TrainerError
from anygpu.trainers.registry import find, is_built_in

_EXTRA = re.compile(r"""extra\s*==\s*['"]([A-Za-z0-9._-]+)['"]""")


def requirements_for(trainer: str, settings: Mapping[str, Any]) -> list[str]:
    """Of a job's trainer with these settings. Only our own are asked: nobody else's code is run to know it."""
    if not is_built_in(trainer):
        return []
    try:
        kind = find(trainer)
        extras = kind.extras(kind.configured(settings))
    except (ImportError, TrainerError):
        return []
    return sorted({each for extra in extras for each in requirements_of(extra)})


@functools.cache
def requirements_of(extra: str) -> tuple[str, ...]:
    """`("scikit-learn>=1.5", ...)`"""
    try:
        declared = metadata.requires("anygpu") or []
    except metadata.PackageNotFoundError:
        return ()
    return tuple(
        line.partition(";")[0].strip() for line in declared if extra in _EXTRA.findall(line.partition(";")[2])
    )
