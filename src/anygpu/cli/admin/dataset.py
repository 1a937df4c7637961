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
    from anygpu.trainers.data import Finding, Spread, Statistics
    from anygpu.trainers.data.tables import ColumnCount
if TYPE_CHECKING:
    from anygpu.trainers.data import Dataset, Finding

IMBALANCED = 10  # times as many of another class in train


def finding_lines(path: Path, findings: Iterable["Finding"]) -> list[str]:
    """Where, and what; never cut, for it has to be acted on."""
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
        pairs.append(("nothing in", _by_split(counted.empty)))
    if any(counted.object_sizes.values()):
        pairs.append(
            ("objects", ", ".join(f"{count:,} {size}" for size, count in counted.object_sizes.items()))
        )
    return [*pairs, ("imbalance", _imbalance_text(counted.imbalance))]


def _imbalance_text(times: float | None) -> str:
    on = use_colour()
    if times is None:
        return paint("a class is never in train", "red", on=on)
    said = f"the most frequent class is {times:.1f} times as frequent as the rarest"
    return paint(said, "yellow", on=on) if times >= IMBALANCED else said


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
    return output.table(("COLUMN", "KIND", "MISSING", "DIFFERENT", "VALUES"), rows)


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
TASK = click.option("--task", default="", help="What it is for: detect, segment, pose or classify.")
QUICK = click.option("--quick", is_flag=True, help="Look at the structure of images only; decode none.")
VAL = click.option(
    "--val",
    "val_fraction",
    default=0.2,
    show_default=True,
    type=click.FloatRange(0.001, 0.999),
    help="How much validates, of what has no split.",
)
SEED = click.option("--seed", default=0, show_default=True, help="Another seed is another split.")


@click.group(name="dataset", cls=SuggestingGroup)
def dataset_command() -> None:
    """Check, count, split and convert data: YOLO, COCO, image folders and tables; also zipped or tarred."""


@dataset_command.command(name="check")
@DATASET
@TASK
@QUICK
@json_option
def check_dataset(path: Path, task: str, quick: bool, as_json: bool) -> None:
    """Tell everything that is wrong with the data at PATH; exit code 1 when something is."""
    from anygpu.trainers import BadDataset

    with _trainer_errors_reported():
        try:
            found = _inspect(path, task, decode=not quick)
        except BadDataset as error:
            _print_findings(path, error.findings, as_json)
            raise click.exceptions.Exit(exits.FAILED) from None
    summary = found.pop("summary")
    if as_json:
        emit_json({"ok": True, "findings": [], **found})
    else:
        emit([f"{path}: {summary}", *(f"note: {each}" for each in found["notes"]), "nothing is wrong"])


@dataset_command.command(name="stats")
@DATASET
@TASK
@json_option
def dataset_stats(path: Path, task: str, as_json: bool) -> None:
    """Count what is in the data at PATH: by class and split, sizes, how uneven it is."""
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
@click.option(
    "--to", "layout", required=True, type=click.Choice(["yolo", "coco"]), help="The layout to write."
)
@click.argument("out", type=click.Path(path_type=Path))
@VAL
@SEED
@json_option
def convert_dataset(
    path: Path, layout: str, out: Path, val_fraction: float, seed: int, as_json: bool
) -> None:
    """Write the data at PATH again into the new folder OUT, in another layout. Images are linked where possible."""
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
    """Write the data at PATH into the new folder OUT, split into train and val. Added images move no other."""
    from anygpu.trainers import data

    writers = {"yolo": data.to_yolo, "coco": data.to_coco, "image-folder": data.to_image_folder}
    with _trainer_errors_reported():
        dataset = data.load(path, val_fraction=val_fraction, seed=seed, decode=False)
        if dataset.has_own_split:
            raise click.UsageError(f"{path} is split already: {_split_counts(dataset)}.")
        written = writers[dataset.layout](dataset, out)
    _print_written(dataset, written, as_json)


@contextmanager
def _trainer_errors_reported() -> Iterator[None]:
    """What is wrong with the data is said, as any other failure is."""
    from anygpu.trainers import TrainerError

    try:
        yield
    except TrainerError as error:
        exits.print_message(str(error))
        raise click.exceptions.Exit(exits.FAILED) from None


def _is_table(path: Path) -> bool:
    return path.suffix.lower() in (".csv", ".tsv", ".parquet", ".pq")


def _inspect(path: Path, task: str, *, decode: bool) -> dict[str, Any]:
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
        told = [{"path": str(each.path), "line": each.line, "what": each.what} for each in findings]
        emit_json({"ok": False, "findings": told})
        return

    emit(finding_lines(path, findings[:MAX_FINDINGS]))
    if len(findings) > MAX_FINDINGS:
        emit([f"and {len(findings) - MAX_FINDINGS:,} more; --json shows all"])
    files = len({each.path for each in findings})
    exits.print_message(
        f"{formatting.plural(len(findings), 'thing')} wrong in {formatting.plural(files, 'file')} of {path}"
    )


def _print_written(dataset: "Dataset", written: Path, as_json: bool) -> None:
    if as_json:
        counts = {split: len(items) for split, items in dataset.splits.items()}
        emit_json({"written": str(written), "images": counts})
    else:
        emit([f"wrote {written}: {_split_counts(dataset)}"])


def _split_counts(dataset: "Dataset") -> str:
    return ", ".join(f"{len(items):,} {split}" for split, items in dataset.splits.items()) + " images"
