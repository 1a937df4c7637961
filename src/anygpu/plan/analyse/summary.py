"""The analysis as rows for a table: what, value, how sure, where it stands."""

from dataclasses import dataclass
from typing import Any

from anygpu.plan.analyse.findings import Analysis, Found

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
    ("data set GB", "dataset_gb"),
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
    """What was found, then what follows from it."""
    rows = [
        Row(
            "frameworks",
            ", ".join(f.value for f in read.frameworks) or "none found",
            _sure(read),
            _first(read),
        )
    ]
    rows += [_row(what, found) for what, name in _FIELDS if (found := getattr(read, name)) is not None]
    return (*rows, *_follows(read))


def _sure(read: Analysis) -> str:
    return read.frameworks[0].sureness if read.frameworks else "low"


def _first(read: Analysis) -> str:
    return read.frameworks[0].place if read.frameworks else ""


def _row(what: str, found: Found[Any]) -> Row:
    return Row(what, shown(found.value), found.sureness, found.place, found.because)


def _follows(read: Analysis) -> list[Row]:
    job = read.characteristics
    if job is None:
        return []
    low, high = job.duration_range_hours
    hours = Row(
        "hours on an A100",
        f"{job.duration_hours.value:.2g} ({low:.2g} to {high:.2g})",
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
        value = f"{job.gpu_memory_gb.value:.1f} ({low:.1f} to {high:.1f})"
        found = job.gpu_memory_gb
        rows.insert(1, Row("GPU memory GB", value, found.sureness, found.place, found.because))
    return rows


def shown(value: object) -> str:
    """Numbers as people write them: 124.4M, 3, yes."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and value >= 1_000_000:
        return f"{value / 1e9:.2f}B" if value >= 1e9 else f"{value / 1e6:.1f}M"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
