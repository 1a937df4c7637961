"""`anygpu dataset`: look at data before anything is rented to train on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anygpu.cli import exits, words
from anygpu.cli.connection import json_option
from anygpu.cli.groups import Named
from anygpu.cli.output import emit, emit_json
from anygpu.errors import NotFound

if TYPE_CHECKING:
    from anygpu.trainers.data import Dataset, Finding

SHOWN = 100


def _there(context: click.Context, parameter: click.Parameter, path: Path) -> Path:
    if not path.exists():
        raise NotFound(f"There is no file or folder {str(path)!r}.", hint="Check the path.")
    return path


DATASET = click.argument("path", type=click.Path(path_type=Path), callback=_there)
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


@click.group(name="dataset", cls=Named)
def command() -> None:
    """Check, count, split and convert data: YOLO, COCO, image folders and tables; also zipped or tarred."""


@command.command(name="check")
@DATASET
@TASK
@QUICK
@json_option
def check(path: Path, task: str, quick: bool, as_json: bool) -> None:
    """Tell everything that is wrong with the data at PATH; exit code 1 when something is."""
    from anygpu.trainers import BadDataset

    with _told():
        try:
            found = _looked_at(path, task, decode=not quick)
        except BadDataset as error:
            _tell_findings(path, error.findings, as_json)
            raise click.exceptions.Exit(exits.FAILED) from None
    summary = found.pop("summary")
    if as_json:
        emit_json({"ok": True, "findings": [], **found})
    else:
        emit([f"{path}: {summary}", *(f"note: {each}" for each in found["notes"]), "nothing is wrong"])


@command.command(name="stats")
@DATASET
@TASK
@json_option
def stats(path: Path, task: str, as_json: bool) -> None:
    """Count what is in the data at PATH: by class and split, sizes, how uneven it is."""
    from anygpu.cli.dataset_tables import column_lines, statistics_lines
    from anygpu.trainers import data
    from anygpu.trainers.data.table_counts import column_counts

    with _told():
        if _is_table(path):
            columns = column_counts(data.load_table(path))
            emit_json([each.as_dict() for each in columns]) if as_json else emit(column_lines(columns))
            return
        counted = data.statistics(data.load(path, task=task, decode=False))
        emit_json(counted.as_dict()) if as_json else emit(statistics_lines(counted))


@command.command(name="convert")
@DATASET
@click.option(
    "--to", "layout", required=True, type=click.Choice(["yolo", "coco"]), help="The layout to write."
)
@click.argument("out", type=click.Path(path_type=Path))
@VAL
@SEED
@json_option
def convert(path: Path, layout: str, out: Path, val_fraction: float, seed: int, as_json: bool) -> None:
    """Write the data at PATH again into the new folder OUT, in another layout. Images are linked where possible."""
    from anygpu.trainers import data

    with _told():
        dataset = data.load(path, val_fraction=val_fraction, seed=seed, decode=False)
        written = data.to_yolo(dataset, out) if layout == "yolo" else data.to_coco(dataset, out)
    _tell_written(dataset, written, as_json)


@command.command(name="split")
@DATASET
@click.argument("out", type=click.Path(path_type=Path))
@VAL
@SEED
@json_option
def split(path: Path, out: Path, val_fraction: float, seed: int, as_json: bool) -> None:
    """Write the data at PATH into the new folder OUT, split into train and val. Added images move no other."""
    from anygpu.trainers import data

    writers = {"yolo": data.to_yolo, "coco": data.to_coco, "image-folder": data.to_image_folder}
    with _told():
        dataset = data.load(path, val_fraction=val_fraction, seed=seed, decode=False)
        if dataset.has_own_split:
            raise click.UsageError(f"{path} is split already: {_counts(dataset)}.")
        written = writers[dataset.layout](dataset, out)
    _tell_written(dataset, written, as_json)


@contextmanager
def _told() -> Iterator[None]:
    """What is wrong with the data is said, as any other failure is."""
    from anygpu.trainers import TrainerError

    try:
        yield
    except TrainerError as error:
        exits.say(str(error))
        raise click.exceptions.Exit(exits.FAILED) from None


def _is_table(path: Path) -> bool:
    return path.suffix.lower() in (".csv", ".tsv", ".parquet", ".pq")


def _looked_at(path: Path, task: str, *, decode: bool) -> dict[str, Any]:
    from anygpu.trainers import data

    if _is_table(path):
        table = data.load_table(path)
        kinds = dict(zip(table.columns, table.kinds, strict=True))
        summary = f"table, {len(table.columns)} columns, {words.plural(len(table.rows), 'row')}"
        return {"layout": "table", "columns": kinds, "rows": len(table.rows), "notes": [], "summary": summary}
    dataset = data.load(path, task=task, decode=decode)
    return {
        "layout": dataset.layout,
        "classes": list(dataset.classes),
        "images": {split: len(items) for split, items in dataset.splits.items()},
        "has_own_split": dataset.has_own_split,
        "sha256": dataset.sha256,
        "notes": [each.what for each in dataset.notes],
        "summary": f"{dataset.layout}, {len(dataset.classes)} classes, {_counts(dataset)}",
    }


def _tell_findings(path: Path, findings: "tuple[Finding, ...]", as_json: bool) -> None:
    if as_json:
        told = [{"path": str(each.path), "line": each.line, "what": each.what} for each in findings]
        emit_json({"ok": False, "findings": told})
        return
    from anygpu.cli.dataset_tables import finding_lines

    emit(finding_lines(path, findings[:SHOWN]))
    if len(findings) > SHOWN:
        emit([f"and {len(findings) - SHOWN:,} more; --json shows all"])
    files = len({each.path for each in findings})
    exits.say(f"{words.plural(len(findings), 'thing')} wrong in {words.plural(files, 'file')} of {path}")


def _tell_written(dataset: "Dataset", written: Path, as_json: bool) -> None:
    if as_json:
        counts = {split: len(items) for split, items in dataset.splits.items()}
        emit_json({"written": str(written), "images": counts})
    else:
        emit([f"wrote {written}: {_counts(dataset)}"])


def _counts(dataset: "Dataset") -> str:
    return ", ".join(f"{len(items):,} {split}" for split, items in dataset.splits.items()) + " images"
