"""How `anygpu dataset` shows findings and counts."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from anygpu.cli import table, words
from anygpu.cli.paint import paint, wanted

if TYPE_CHECKING:
    from anygpu.trainers.data import Finding, Spread, Statistics
    from anygpu.trainers.data.table_counts import ColumnCount

RARE = 10  # times as many of another class in train


def finding_lines(path: Path, findings: Iterable["Finding"]) -> list[str]:
    """Where, and what; never cut, for it has to be acted on."""
    root = (path if path.is_dir() else path.parent).resolve()
    on = wanted()
    return [f"{paint(_where(each, root), 'cyan', on=on)}: {each.what}" for each in findings]


def _where(finding: "Finding", root: Path) -> str:
    resolved = finding.path if finding.path.is_absolute() else Path.cwd() / finding.path
    inside = resolved.is_relative_to(root) and resolved != root
    place = str(resolved.relative_to(root)) if inside else str(finding.path)
    return f"{place}:{finding.line}" if finding.line else place


def statistics_lines(counted: "Statistics") -> list[str]:
    return [*table.fields(_summary(counted)), "", *_classes(counted)]


def _summary(counted: "Statistics") -> list[tuple[str, str]]:
    pairs = [
        ("layout", counted.layout),
        ("images", _by_split(counted.images)),
        ("image width", _spread(counted.image_width)),
        ("image height", _spread(counted.image_height)),
    ]
    if any(counted.empty.values()):
        pairs.append(("nothing in", _by_split(counted.empty)))
    if any(counted.object_sizes.values()):
        pairs.append(
            ("objects", ", ".join(f"{count:,} {size}" for size, count in counted.object_sizes.items()))
        )
    return [*pairs, ("imbalance", _imbalance(counted.imbalance))]


def _imbalance(times: float | None) -> str:
    on = wanted()
    if times is None:
        return paint("a class is never in train", "red", on=on)
    said = f"the most frequent class is {times:.1f} times as frequent as the rarest"
    return paint(said, "yellow", on=on) if times >= RARE else said


def _classes(counted: "Statistics") -> list[str]:
    splits = list(counted.images)
    with_boxes = any(each.width for each in counted.classes)
    sizes = ("WIDTH", "HEIGHT") if with_boxes else ()
    rows = [
        (
            each.name,
            *(f"{each.objects[split]:,}" for split in splits),
            *((_percents(each.width), _percents(each.height)) if with_boxes else ()),
        )
        for each in counted.classes
    ]
    return table.table(("CLASS", *(split.upper() for split in splits), *sizes), rows)


def column_lines(columns: Sequence["ColumnCount"]) -> list[str]:
    rows = [
        (each.name, each.kind, f"{each.missing:,}", f"{each.different:,}", _values(each)) for each in columns
    ]
    return table.table(("COLUMN", "KIND", "MISSING", "DIFFERENT", "VALUES"), rows)


def _values(column: "ColumnCount") -> str:
    if column.spread is not None:
        return _spread(column.spread)
    return ", ".join(f"{text} {count:,}" for text, count in (column.frequent or {}).items())


def _by_split(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {split}" for split, count in counts.items())


def _spread(spread: "Spread") -> str:
    if spread.least == spread.most:
        return words.metric(spread.least)
    return (
        f"{words.metric(spread.least)} to {words.metric(spread.most)}, median {words.metric(spread.median)}"
    )


def _percents(spread: "Spread | None") -> str:
    if spread is None:
        return "-"
    if spread.least == spread.most:
        return f"{spread.least:.0%}"
    return f"{spread.least:.0%} to {spread.most:.0%}, median {spread.median:.0%}"
