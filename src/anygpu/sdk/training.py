"""A trainer's job looked at where it is submitted: a wrong setting, or a bad dataset, before anything is sent."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from anygpu.errors import AnygpuError, InvalidSpec, Problem
from anygpu.spec.jobspec import JobSpec


def require_trainable(spec: Mapping[str, Any]) -> None:
    """InvalidSpec tells all that is wrong with the settings; then with the data, where that lies here."""
    from anygpu.spec import from_mapping
    from anygpu.spec.training import training_problems

    try:
        asked = from_mapping(spec)
    except AnygpuError:
        return  # the server explains what is wrong with the rest of it
    problems = [*training_problems(asked)] or [*dataset_problems(asked)]
    if problems:
        raise InvalidSpec(problems)


def dataset_problems(spec: JobSpec) -> list[Problem]:
    """What is wrong with a dataset that is a path of this machine."""
    from anygpu.trainers import registry
    from anygpu.trainers.errors import BadDataset, MissingExtra

    path = Path(spec.dataset.path).expanduser() if spec.dataset and spec.dataset.path else None
    if path is None or spec.trainer is None or not registry.is_built_in(spec.trainer):
        return []
    if not path.exists():
        where = "" if path.is_absolute() else f" in {Path.cwd()}"
        return [Problem("dataset", str(path), f"there is no file or directory {str(path)!r}{where}")]
    try:
        kind = registry.find(spec.trainer)
        kind.check_dataset(kind.configured(spec.config), path)
    except BadDataset as error:
        return [Problem("dataset", str(each.path), str(each)) for each in error.findings[: error.SHOWN]]
    except (ImportError, MissingExtra):
        return []  # what would be needed to look is not installed here; the job looks again
    return []
