"""A trainer's job, checked before anything starts: that there is such a trainer, and that it has these settings.

Only trainers of our own are asked, which answer without their framework; a plugin's code is not run here.
"""

import functools
from collections.abc import Iterator
from typing import Any

from anygpu.errors import Problem
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.nearest import did_you_mean


def training_problems(spec: JobSpec) -> Iterator[Problem]:
    if spec.trainer is None or spec.trainer_file is not None:
        return
    from anygpu.trainers import registry
    from anygpu.trainers.errors import BadConfig

    if not registry.is_built_in(spec.trainer):
        if not _brings_its_own(spec) and spec.trainer not in _names():
            near = did_you_mean(spec.trainer, _names()) or "`anygpu trainer ls` tells which there are"
            yield Problem("trainer", spec.trainer, f"there is no trainer {spec.trainer!r}", near)
        return
    try:
        registry.find(spec.trainer).configured(spec.config)
    except BadConfig as error:
        yield from (_problem(line, spec) for line in str(error).splitlines())
    except ImportError:
        return  # the machine that runs it will tell


@functools.cache
def _names() -> tuple[str, ...]:
    """Looking through every installed package takes a while, and a server answers others meanwhile."""
    from anygpu.trainers import registry

    return (*registry.names(), *registry.ALIASES)


def _brings_its_own(spec: JobSpec) -> bool:
    """What the job installs, or its image, may have trainers this machine has not."""
    return bool(spec.requirements or spec.image or spec.setup or spec.python)


def _problem(line: str, spec: JobSpec) -> Problem:
    name, colon, said = line.partition(": ")
    if not colon or " " in name:
        return Problem("config", None, line)
    value: Any = spec.config.get(name)
    return Problem(f"config.{name}", value, said)
