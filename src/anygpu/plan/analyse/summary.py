"""The analysis as rows for a table: what, value, how sure, where it stands."""

from dataclasses import dataclass
from typing import Any

from anygpu.plan.analyse.findings import Analysis, Found, Problem, WorkloadCharacteristics
from anygpu.plan.effort import reference

MOST_PROBLEMS = 3
_FIELDS = (
    ("model", "model"),
    ("parameters", "parameters"),
    ("batch size", "batch_size"),
    ("accumulation", "accumulation"),
    ("epochs", "epochs"),
    ("steps", "steps"),
    ("precision", "precision"),
    ("optimiser", "optimiser"),
    ("image size", "image_size"),
    ("sequence", "sequence_length"),
    ("adapters", "adapters"),
    ("loader workers", "workers"),
    ("data set", "dataset"),
    ("size of the data", "dataset_gb"),
    ("several GPUs", "multi_gpu"),
    ("GPUs", "gpus"),
    ("saves in training", "checkpointing"),
    ("saves every", "checkpoint_every"),
    ("can resume", "resuming"),
    ("needs a GPU", "needs_gpu"),
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table a command prints."""

    what: str
    value: str
    sure: str
    where: str
    because: str = ""


def summary(read: Analysis) -> tuple[Row, ...]:
    """What could not be read, what was found, then what follows from it."""
    rows = [_unread(problem) for problem in read.problems[:MOST_PROBLEMS]]
    rows += [
        Row(
            "frameworks",
            ", ".join(f.value for f in read.frameworks) or "none found",
            _sure(read),
            _first(read),
        )
    ]
    rows += [_row(what, found) for what, name in _FIELDS if (found := getattr(read, name)) is not None]
    return (*rows, *_follows(read))


def _unread(problem: Problem) -> Row:
    """Short, beside the other values; the whole of it is the reason."""
    place = f"{problem.file}:{problem.line}" if problem.line else problem.file
    return Row("not read", problem.says.partition(" (")[0].partition(";")[0], "-", place, problem.says)


def _sure(read: Analysis) -> str:
    return read.frameworks[0].sureness if read.frameworks else "low"


def _first(read: Analysis) -> str:
    return read.frameworks[0].place if read.frameworks else ""


def _row(what: str, found: Found[Any]) -> Row:
    value = _size(found.value) if what == "size of the data" else shown(found.value)
    return Row(what, value, found.sureness, found.place, found.because)


def _follows(read: Analysis) -> list[Row]:
    job = read.characteristics
    if job is None:
        return []
    low, high = job.duration_range_hours
    hours = Row(
        _time_on(job),
        f"{_time(job.duration_hours.value)} ({_time(low)} to {_time(high)})",
        job.duration_hours.sureness,
        job.duration_hours.place,
        job.duration_hours.because,
    )
    rows = [
        hours,
        _row("interruptible", job.interruptible),
        _row("keeps files", job.needs_persistent_storage),
    ]
    if job.gpu_memory_gb.value:
        low, high = job.gpu_memory_range_gb
        value = f"{job.gpu_memory_gb.value:.1f} GB ({low:.1f} to {high:.1f})"
        found = job.gpu_memory_gb
        rows.insert(1, Row("GPU memory", value, found.sureness, found.place, found.because))
    return rows


def _time_on(job: WorkloadCharacteristics) -> str:
    """With what the hours are counted on, where they are counted."""
    if job.effort is None:
        return "time"
    family = reference().family
    return f"time on {job.gpus} {family}s" if job.gpus > 1 else f"time on an {family}"


def _size(gigabytes: float) -> str:
    return f"{gigabytes:.3g} GB" if gigabytes >= 1 else f"{gigabytes * 1000:.3g} MB"


def _time(hours: float) -> str:
    """In the unit people would say it in."""
    for unit, in_hours, until in (("s", 1 / 3600, 1 / 60), ("min", 1 / 60, 1.5), ("h", 1.0, 48.0)):
        if hours < until:
            return f"{hours / in_hours:.2g} {unit}"
    return f"{hours / 24:,.0f} days"


def shown(value: object) -> str:
    """Numbers as people write them: 124.4M, 600,000, 3, yes."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and value >= 1_000_000:
        return f"{value / 1e9:.2f}B" if value >= 1e9 else f"{value / 1e6:.1f}M"
    if isinstance(value, int) and value >= 10_000:
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
