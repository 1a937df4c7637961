"""Read texts from CSV, Parquet, JSON Lines or plain files, and check, split and hash them."""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anygpu.trainers import data
from anygpu.trainers.errors import BadDataset, Finding

JSONL, TABLES, PLAIN = (".jsonl", ".ndjson"), (".csv", ".tsv", ".parquet"), (".txt", ".md", ".text")
SPLITS = {"train": "train", "val": "val", "valid": "val", "validation": "val", "dev": "val", "test": "test"}
USUAL_TEXT = ("text", "sentence", "content", "review", "prompt")
USUAL_LABEL = ("label", "labels", "class", "category", "target", "sentiment")


@dataclass(frozen=True)
class TextRow:
    text: str
    label: str = ""


@dataclass(frozen=True)
class Texts:
    train: tuple[TextRow, ...]
    val: tuple[TextRow, ...]
    sha256: str

    @property
    def classes(self) -> tuple[str, ...]:
        return tuple(sorted({row.label for row in (*self.train, *self.val)}))


def read_labelled(path: Path, *, text: str, label: str, val_fraction: float, seed: int) -> Texts:
    """Read texts with class labels, from the columns named `text` and `label`.

    If one of them is empty, a column with a common name such as `text`, `sentence` or `label` is used.
    """
    files = _files(data.open_dataset(path), (*JSONL, *TABLES))
    parts = {split: _rows(file, text, label, wants_label=True) for split, file in files.items()}
    train = parts.get("train", ())
    val = parts.get("val") or parts.get("test")
    if not val:
        train, val = _split(train, val_fraction, seed)
    _check_classes(path, train, val)
    return Texts(train, val, _sha256(parts.values()))


def read_plain(path: Path, *, text: str, val_fraction: float) -> Texts:
    """Read texts for a language model, from plain files or from the column named `text`.

    Without a validation file, the last `val_fraction` of the text is used for validation.
    """
    files = _files(data.open_dataset(path), (*PLAIN, *JSONL, *TABLES))
    parts = {split: _rows(file, text, "", wants_label=False) for split, file in files.items()}
    train = parts.get("train", ())
    val = parts.get("val") or parts.get("test")
    if not val:
        whole = "\n\n".join(row.text for row in train)
        cut = int(len(whole) * (1 - val_fraction))
        train, val = (TextRow(whole[:cut]),), (TextRow(whole[cut:]),)
    return Texts(train, val, _sha256(parts.values()))


def _files(place: Path, endings: Sequence[str]) -> dict[str, Path]:
    """Return the file of each split: `place` itself as train, or the train, val and test files in it."""
    if place.is_file() and place.suffix.lower() in endings:
        return {"train": place}
    if not place.is_dir():
        what = (
            f"is not a text dataset; accepted are files that end with {', '.join(endings)}"
            if place.exists()
            else "does not exist"
        )
        raise BadDataset([Finding(place, what)])
    files = sorted(file for file in place.iterdir() if file.suffix.lower() in endings)
    named = {SPLITS[file.stem.lower()]: file for file in files if file.stem.lower() in SPLITS}
    if len(files) == 1 and not named:
        return {"train": files[0]}
    if "train" not in named:
        raise BadDataset([Finding(place, "has no train file; name one file train.csv, train.jsonl, ...")])
    return named


def _rows(file: Path, text: str, label: str, *, wants_label: bool) -> tuple[TextRow, ...]:
    if file.suffix.lower() in PLAIN:
        return (TextRow(_read_text(file)),)
    records = list(_records(file))
    findings: list[Finding] = []
    names = list(records[0][1]) if records else []
    text_at = _column(file, names, text, USUAL_TEXT, "text_column", findings)
    label_at = _column(file, names, label, USUAL_LABEL, "label_column", findings) if wants_label else ""
    if findings:
        raise BadDataset(findings)
    rows = [_row(file, line, record, text_at, label_at, findings) for line, record in records]
    if findings:
        raise BadDataset(findings)
    return tuple(rows)


def _row(
    file: Path, line: int, record: dict[str, Any], text_at: str, label_at: str, findings: list[Finding]
) -> TextRow:
    text, label = record.get(text_at), record.get(label_at) if label_at else ""
    if not isinstance(text, str) or not text.strip():
        findings.append(
            Finding(file, f"column {text_at!r} is empty or not text; fill it, or remove the row", line)
        )
    if label is None or (label_at and not str(label).strip()):
        findings.append(Finding(file, f"column {label_at!r} is empty; fill it, or remove the row", line))
    return TextRow(str(text), _label(label))


def _label(value: Any) -> str:
    """Return a label as a string. The number 1.0 becomes "1"."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _column(
    file: Path, names: Sequence[str], wanted: str, usual: Sequence[str], setting: str, findings: list[Finding]
) -> str:
    column = wanted if wanted in names else next((name for name in usual if not wanted and name in names), "")
    if not column:
        missing = (
            f"there is no column {wanted!r}" if wanted else f"no column is called {' or '.join(usual[:2])}"
        )
        findings.append(Finding(file, f"{missing}; set {setting} to one of {', '.join(names) or 'none'}", 1))
    return column


def _records(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    if file.suffix.lower() in JSONL:
        yield from _json_lines(file)
        return
    table = data.load_table(file)
    for line, row in enumerate(table.rows, 2):
        yield line, dict(zip(table.columns, row, strict=True))


def _json_lines(file: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    findings: list[Finding] = []
    for line, text in enumerate(_read_text(file).splitlines(), 1):
        if not text.strip():
            continue
        try:
            record = json.loads(text)
        except ValueError as error:
            findings.append(Finding(file, f"is not valid JSON: {error}; correct this line", line))
            continue
        if isinstance(record, dict):
            yield line, record
        else:
            findings.append(
                Finding(
                    file,
                    "the line is not a JSON object; write one object with the columns as keys per line",
                    line,
                )
            )
    if findings:
        raise BadDataset(findings)


def _read_text(file: Path) -> str:
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadDataset(
            [Finding(file, f"cannot be read as UTF-8 text: {error}; save the file as UTF-8")]
        ) from None
    if not text.strip():
        raise BadDataset([Finding(file, "is empty; add texts to the file")])
    return text


def _split(
    rows: Sequence[TextRow], fraction: float, seed: int
) -> tuple[tuple[TextRow, ...], tuple[TextRow, ...]]:
    """Split the rows into (train, val) by class, so that each class has the same proportion in both."""
    chance, held = random.Random(seed), set[int]()
    for label in sorted({row.label for row in rows}):
        places = [at for at, row in enumerate(rows) if row.label == label]
        held |= set(chance.sample(places, min(len(places) - 1, max(1, round(len(places) * fraction)))))
    return (
        tuple(row for at, row in enumerate(rows) if at not in held),
        tuple(rows[at] for at in sorted(held)),
    )


def _check_classes(path: Path, train: Sequence[TextRow], val: Sequence[TextRow]) -> None:
    train_classes = {row.label for row in train}
    if len(train_classes) < 2:
        raise BadDataset([Finding(path, "has fewer than two classes; add texts of another class")])
    strange = sorted({row.label for row in val} - train_classes)
    if strange:
        raise BadDataset(
            [
                Finding(
                    path,
                    "these classes have validation texts but no training texts; add some, or remove the classes: "
                    f"{', '.join(strange)}",
                )
            ]
        )
    if not val:
        raise BadDataset([Finding(path, "has too few texts to use some of them for validation; add texts")])


def _sha256(parts: Any) -> str:
    digest = hashlib.sha256()
    for rows in parts:
        for row in rows:
            digest.update(f"{row.label}\x00{row.text}\x00".encode())
    return digest.hexdigest()
