"""`anygpu dataset`: check, count, split and convert a dataset before training."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anygpu.cli import exits
from anygpu.cli.connection import json_option
from anygpu.cli.root import SuggestingGroup
from anygpu.cli.terminal import formatting, output
from anygpu.cli.terminal.output import emit, emit_json, paint, use_colour
from anygpu.errors import NotFound

if TYPE_CHECKING:
    from anygpu.trainers.data import Dataset, Finding, Spread, Statistics
    from anygpu.trainers.data.tables import ColumnCount


IMBALANCED = 10  # warn when the most frequent class is this many times as frequent as the rarest


def finding_lines(path: Path, findings: Iterable["Finding"]) -> list[str]:
    """Return one line for each problem in a dataset: file, line number and text. Long lines are not cut."""
    root = (path if path.is_dir() else path.parent).resolve()
    on = use_colour()
    return [f"{paint(_finding_location(each, root), 'cyan', on=on)}: {each.what}" for each in findings]


def _finding_location(finding: "Finding", root: Path) -> str:
    resolved = finding.path if finding.path.is_absolute() else Path.cwd() / finding.path
    inside = resolved.is_relative_to(root) and resolved != root
    place = str(resolved.relative_to(root)) if inside else str(finding.path)
    return f"{place}:{finding.line}" if finding.line else place


def statistics_lines(counted: "Statistics") -> list[str]:
    return [*output.fields(_summary_fields(counted)), "", *_class_table(counted)]


def _summary_fields(counted: "Statistics") -> list[tuple[str, str]]:
    pairs = [
        ("layout", counted.layout),
        ("images", _by_split(counted.images)),
        ("image width", _spread_text(counted.image_width)),
        ("image height", _spread_text(counted.image_height)),
    ]
    if any(counted.empty.values()):
        pairs.append(("empty images", _by_split(counted.empty)))
    if any(counted.object_sizes.values()):
        pairs.append(
            ("objects", ", ".join(f"{count:,} {size}" for size, count in counted.object_sizes.items()))
        )
    return [*pairs, ("imbalance", _imbalance_text(counted.imbalance))]


def _imbalance_text(times: float | None) -> str:
    on = use_colour()
    if times is None:
        return paint("a class does not occur in the training split", "red", on=on)
    text = f"the most frequent class is {times:.1f} times as frequent as the rarest"
    return paint(text, "yellow", on=on) if times >= IMBALANCED else text


def _class_table(counted: "Statistics") -> list[str]:
    splits = list(counted.images)
    with_boxes = any(each.width for each in counted.classes)
    sizes = ("WIDTH", "HEIGHT") if with_boxes else ()
    rows = [
        (
            each.name,
            *(f"{each.objects[split]:,}" for split in splits),
            *((_percent_spread(each.width), _percent_spread(each.height)) if with_boxes else ()),
        )
        for each in counted.classes
    ]
    return output.table(("CLASS", *(split.upper() for split in splits), *sizes), rows)


def column_lines(columns: Sequence["ColumnCount"]) -> list[str]:
    rows = [
        (each.name, each.kind, f"{each.missing:,}", f"{each.different:,}", _column_values(each))
        for each in columns
    ]
    return output.table(("COLUMN", "TYPE", "MISSING", "DISTINCT", "VALUES"), rows)


def _column_values(column: "ColumnCount") -> str:
    if column.spread is not None:
        return _spread_text(column.spread)
    return ", ".join(f"{text} {count:,}" for text, count in (column.frequent or {}).items())


def _by_split(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {split}" for split, count in counts.items())


def _spread_text(spread: "Spread") -> str:
    if spread.least == spread.most:
        return formatting.metric(spread.least)
    least, median, most = map(formatting.metric, (spread.least, spread.median, spread.most))
    return f"{least} to {most}, median {median}"


def _percent_spread(spread: "Spread | None") -> str:
    if spread is None:
        return "-"
    if spread.least == spread.most:
        return f"{spread.least:.0%}"
    return f"{spread.least:.0%} to {spread.most:.0%}, median {spread.median:.0%}"


MAX_FINDINGS = 100


def _require_path(context: click.Context, parameter: click.Parameter, path: Path) -> Path:
    if not path.exists():
        raise NotFound(f"There is no file or folder {str(path)!r}.", hint="Check the path.")
    return path


DATASET = click.argument("path", type=click.Path(path_type=Path), callback=_require_path)
TASK = click.option("--task", default="", help="Task: detect, segment, pose or classify.")
QUICK = click.option("--quick", is_flag=True, help="Check only the headers of images; do not decode them.")
VAL = click.option(
    "--val",
    "val_fraction",
    default=0.2,
    show_default=True,
    type=click.FloatRange(0.001, 0.999),
    help="Fraction of the data for validation, if the dataset has no split.",
)
SEED = click.option("--seed", default=0, show_default=True, help="Seed of the random split.")


@click.group(name="dataset", cls=SuggestingGroup)
def dataset_command() -> None:
    """Check, count, split and convert datasets: YOLO, COCO, image folders and tables, also as zip or tar.gz."""


@dataset_command.command(name="check")
@DATASET
@TASK
@QUICK
@json_option
def check_dataset(path: Path, task: str, quick: bool, as_json: bool) -> None:
    """Report every problem in the dataset at PATH. The exit code is 1 if there are problems."""
    from anygpu.trainers import BadDataset

    with _trainer_errors_reported():
        try:
            result = inspect_dataset(path, task, decode=not quick)
        except BadDataset as error:
            _print_findings(path, error.findings, as_json)
            raise click.exceptions.Exit(exits.FAILED) from None
    summary = result.pop("summary")
    if as_json:
        emit_json({"ok": True, "findings": [], **result})
    else:
        emit([f"{path}: {summary}", *(f"Note: {each}" for each in result["notes"]), "No problems found."])


@dataset_command.command(name="stats")
@DATASET
@TASK
@json_option
def dataset_stats(path: Path, task: str, as_json: bool) -> None:
    """Count the objects of each class and split, and report image sizes and class imbalance."""
    from anygpu.trainers import data
    from anygpu.trainers.data.tables import column_counts

    with _trainer_errors_reported():
        if _is_table(path):
            columns = column_counts(data.load_table(path))
            emit_json([each.as_dict() for each in columns]) if as_json else emit(column_lines(columns))
            return
        counted = data.statistics(data.load(path, task=task, decode=False))
        emit_json(counted.as_dict()) if as_json else emit(statistics_lines(counted))


@dataset_command.command(name="convert")
@DATASET
@click.option("--to", "layout", required=True, type=click.Choice(["yolo", "coco"]), help="Format to write.")
@click.argument("out", type=click.Path(path_type=Path))
@VAL
@SEED
@json_option
def convert_dataset(
    path: Path, layout: str, out: Path, val_fraction: float, seed: int, as_json: bool
) -> None:
    """Write a dataset in another format.

    Reads PATH and creates the folder OUT. Images are linked where possible.
    """
    from anygpu.trainers import data

    with _trainer_errors_reported():
        dataset = data.load(path, val_fraction=val_fraction, seed=seed, decode=False)
        written = data.to_yolo(dataset, out) if layout == "yolo" else data.to_coco(dataset, out)
    _print_written(dataset, written, as_json)


@dataset_command.command(name="split")
@DATASET
@click.argument("out", type=click.Path(path_type=Path))
@VAL
@SEED
@json_option
def split_dataset(path: Path, out: Path, val_fraction: float, seed: int, as_json: bool) -> None:
    """Split a dataset into train and val.

    Reads PATH and creates the folder OUT. Images that you add later do not change the split of the others.
    """
    from anygpu.trainers import data

    writers = {"yolo": data.to_yolo, "coco": data.to_coco, "image-folder": data.to_image_folder}
    with _trainer_errors_reported():
        dataset = data.load(path, val_fraction=val_fraction, seed=seed, decode=False)
        if dataset.has_own_split:
            raise click.UsageError(
                f"{path} is already split: {_split_counts(dataset)}. Use it as it is, or give a folder without "
                "train and val."
            )
        written = writers[dataset.layout](dataset, out)
    _print_written(dataset, written, as_json)


@contextmanager
def _trainer_errors_reported() -> Iterator[None]:
    """Print an error from a trainer's dataset code as a normal message, and exit with code 1."""
    from anygpu.trainers import TrainerError

    try:
        yield
    except TrainerError as error:
        exits.print_message(str(error))
        raise click.exceptions.Exit(exits.FAILED) from None


def _is_table(path: Path) -> bool:
    return path.suffix.lower() in (".csv", ".tsv", ".parquet", ".pq")


def inspect_dataset(path: Path, task: str, *, decode: bool) -> dict[str, Any]:
    """Return the layout, classes and sizes of a dataset, and a summary. Raise BadDataset if it has problems."""
    from anygpu.trainers import data

    if _is_table(path):
        table = data.load_table(path)
        kinds = dict(zip(table.columns, table.kinds, strict=True))
        summary = f"table, {len(table.columns)} columns, {formatting.plural(len(table.rows), 'row')}"
        return {"layout": "table", "columns": kinds, "rows": len(table.rows), "notes": [], "summary": summary}
    dataset = data.load(path, task=task, decode=decode)
    return {
        "layout": dataset.layout,
        "classes": list(dataset.classes),
        "images": {split: len(items) for split, items in dataset.splits.items()},
        "has_own_split": dataset.has_own_split,
        "sha256": dataset.sha256,
        "notes": [each.what for each in dataset.notes],
        "summary": f"{dataset.layout}, {len(dataset.classes)} classes, {_split_counts(dataset)}",
    }


def _print_findings(path: Path, findings: "tuple[Finding, ...]", as_json: bool) -> None:
    if as_json:
        entries = [{"path": str(each.path), "line": each.line, "what": each.what} for each in findings]
        emit_json({"ok": False, "findings": entries})
        return

    emit(finding_lines(path, findings[:MAX_FINDINGS]))
    if len(findings) > MAX_FINDINGS:
        emit([f"{len(findings) - MAX_FINDINGS:,} more problems; --json shows all of them."])
    files = len({each.path for each in findings})
    exits.print_message(
        f"Found {formatting.plural(len(findings), 'problem')} in {formatting.plural(files, 'file')} of {path}."
    )


def _print_written(dataset: "Dataset", written: Path, as_json: bool) -> None:
    if as_json:
        counts = {split: len(items) for split, items in dataset.splits.items()}
        emit_json({"written": str(written), "images": counts})
    else:
        emit([f"Wrote {written}: {_split_counts(dataset)}."])


def _split_counts(dataset: "Dataset") -> str:
    return ", ".join(f"{len(items):,} {split}" for split, items in dataset.splits.items()) + " images"
