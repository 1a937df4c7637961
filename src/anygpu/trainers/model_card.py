"""Write the model card: data, settings, results and exported files of a training."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from anygpu.trainers.contract import AnyTrainer
    from anygpu.trainers.result import Export, TrainingResult


def write(trainer: AnyTrainer, result: TrainingResult, path: Path) -> None:
    config = trainer.config
    title = f"{config.model or trainer.name}{f', {config.task}' if config.task else ''}"
    sections = (
        f"# {title}",
        f"Trained by anygpu's `{trainer.name}` trainer, for {result.epochs} epochs ({result.timing.steps:,} steps).",
        f"The framework's licence is {trainer.licence}.",
        "## Data\n\n" + _data(trainer),
        "## Metrics of the best epoch\n\n" + _table(("metric", "value"), _numbers(result.metrics)),
        "## Settings\n\n" + _table(("setting", "value"), _settings(asdict(config))),
        "## Files\n\n" + _table(("format", "file", "checked"), map(_export, result.exports)),
        "## Made with\n\n" + _table(("package", "version"), _versions(trainer.needs)),
    )
    path.write_text("\n\n".join(sections) + "\n")


def _data(trainer: AnyTrainer) -> str:
    where = trainer.dataset_path.name if trainer.dataset_path else "made by the trainer"
    return f"`{where}`, sha256 `{trainer.data_hash or 'unknown'}`."


def _numbers(metrics: Mapping[str, float]) -> Iterable[tuple[str, str]]:
    return ((name, f"{value:.6g}") for name, value in metrics.items())


def _settings(config: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    flat = {**{name: value for name, value in config.items() if name != "options"}, **config["options"]}
    return ((name, f"`{value}`") for name, value in flat.items() if value not in ("", None))


def _export(export: Export) -> tuple[str, str, str]:
    shapes = ", ".join(f"{name} {list(shape)}" for name, shape in export.inputs.items())
    opset = f"opset {export.opset}, " if export.opset else ""
    checked = (
        "not comparable"
        if export.difference is None
        else f"largest difference {export.difference:.2g}, allowed {export.tolerance:.2g}"
    )
    return export.format, f"`{export.path.name}` ({opset}{shapes})", checked


def _versions(modules: Sequence[str]) -> Iterable[tuple[str, str]]:
    names = metadata.packages_distributions() if modules else {}  # slow: reads the metadata of every package
    yield "Python", platform.python_version()
    for module in modules:
        for package in names.get(module, [])[:1]:
            yield package, metadata.version(package)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([f"| {' | '.join(head)} |", "|" + "---|" * len(head), *lines])
