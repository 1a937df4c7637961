"""Check a trainer's name and settings before a job starts.

Only built-in trainers are checked: they validate their settings without importing a framework. The code of a plugin is
never run here.
"""

import functools
from collections.abc import Iterator
from typing import Any

from anygpu.errors import Problem
from anygpu.spec.jobspec import JobSpec
from anygpu.suggest import did_you_mean


def trainer_problems(spec: JobSpec) -> Iterator[Problem]:
    """Yield problems with the spec's trainer: an unknown name, or settings that the trainer does not accept."""
    if spec.trainer is None or spec.trainer_file is not None:
        return
    from anygpu.trainers import registry
    from anygpu.trainers.errors import BadConfig

    if not registry.is_built_in(spec.trainer):
        if not brings_environment(spec) and spec.trainer not in _trainer_names():
            near = did_you_mean(spec.trainer, _trainer_names()) or "`anygpu trainer ls` lists the trainers"
            yield Problem("trainer", spec.trainer, f"there is no trainer {spec.trainer!r}", near)
        return
    if spec.dataset is None:
        wanted = registry.dataset_format(spec.trainer)
        yield Problem(
            "dataset", None, f"is missing: the trainer {spec.trainer!r} needs a dataset", f"give {wanted}"
        )
    yield from _machine_problems(spec)
    processes = trainer_processes(spec)
    try:
        kind = registry.find(spec.trainer)
        if processes > 1 and kind.single_gpu_reason:
            yield _single_gpu_problem(spec.trainer, processes, kind.single_gpu_reason)
            processes = 1
        kind.check_processes(kind.parse_settings(spec.config), processes)
    except BadConfig as error:
        yield from (_problem(line, spec) for line in str(error).splitlines())
    except ImportError:
        return  # the settings can only be checked where the trainer's packages are installed


def trainer_processes(spec: JobSpec) -> int:
    """Return how many processes a built-in trainer starts on its machine: one for each GPU that the job asks for."""
    gpu = spec.resources.gpu
    return max(1, gpu.count) if gpu is not None else 1


def _single_gpu_problem(trainer: str, gpus: int, reason: str) -> Problem:
    return Problem(
        "resources.gpu", gpus, f"the trainer {trainer!r} cannot use {gpus} GPUs: {reason}", "ask for one GPU"
    )


def _machine_problems(spec: JobSpec) -> Iterator[Problem]:
    if spec.resources.nodes > 1:
        yield Problem(
            "resources.nodes",
            spec.resources.nodes,
            "a built-in trainer uses the GPUs of one machine",
            "ask for more GPUs of one machine (resources.gpu), or train with a script of your own",
        )
    if spec.launcher != "none":
        yield Problem(
            "launcher",
            spec.launcher,
            "a built-in trainer starts one process for each GPU itself",
            "remove it",
        )


def framework_modules(spec: JobSpec) -> dict[str, str]:
    """Return the modules that the job's trainer and trackers import, each with the extra that installs it.

    Empty for a job that brings its own environment, and for trainers that are not built in.
    """
    if spec.trainer is None or brings_environment(spec):
        return {}
    from anygpu.trainers import registry

    trackers = {
        module: name for name, module in registry.TRACKER_MODULES.items() if getattr(spec.track, name)
    }
    return {**registry.modules_for(spec.trainer, spec.config), **trackers}


def brings_environment(spec: JobSpec) -> bool:
    """Return whether the job installs packages itself, or runs in an environment of its own."""
    return bool(spec.requirements or spec.image or spec.setup or spec.python)


@functools.cache
def _trainer_names() -> tuple[str, ...]:
    """Return the names of installed trainers.

    The result is cached, because scanning the installed packages is slow.
    """
    from anygpu.trainers import registry

    return (*registry.names(), *registry.ALIASES)


def _problem(line: str, spec: JobSpec) -> Problem:
    name, colon, message = line.partition(": ")
    if not colon or " " in name:
        return Problem("config", None, line)
    value: Any = spec.config.get(name)
    return Problem(f"config.{name}", value, message)
