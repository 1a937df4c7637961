"""Properties that hold for every output, however it is split."""

from __future__ import annotations

import ast
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anygpu.agent.parsers
from anygpu.agent.parsers.lines import LINE_LIMIT
from anygpu.agent.parsers.reader import OutputReader
from anygpu.agent.parsers.state import MAX_NAME_LENGTH, MAX_NAMES

HERE = Path(__file__).parent
CAPTURED = sorted((HERE / "captured").glob("*.out"))
FRAGMENTS = [
    *[b"\n", b"\r", b"\r\n", b"\x1b[A", b"\x1b[2K", b"\x1b[0m", b"\b", b"\t", b"\xff", b" ", b"|", b"]"],
    *[
        b"Epoch 3/10",
        b"epoch=0",
        b"loss=0.5",
        b"val_loss: nan",
        b"acc 0.9",
        b"step 7",
        b"iter 10: ",
        b"[3]\t",
    ],
    *[b"{'loss': 0.5, 'epoch': 1.0}", b"train-auc:0.5", b"valid_0's l2: 0.2", b" all  1 2 0.1 0.2 0.3 0.4"],
    *[
        b"      Epoch    GPU_mem   box_loss  Instances  Size",
        b" 1/3  0G  1.9  4  64: 100%",
        b"3 epochs completed in ",
    ],
    *["50%|█| 5/10 [00:01<00:01, 9.9it/s, loss=0.5]".encode(), b"7it [00:01, 3.0it/s, loss=1]"],
    *[
        "8/9 ━━━━ 1s 6ms/step - loss: 0.25".encode(),
        "Epoch 1/2 ━━━━ 3/6 0:00:01 • 0:00:01 9.9it/s a: 1".encode(),
    ],
    *[
        b'{"type":"progress","data":{"epoch":1,"progress":0.5,"metrics":{"loss":1}}}',
        b"`max_epochs=2` reached.",
    ],
    *["│ test_loss │ 0.5 │".encode(), b" Test metric  DataLoader 0", b"10.0.0.1:8080", b"Average loss: 0.5"],
]
outputs = st.lists(st.one_of(st.sampled_from(FRAGMENTS), st.binary(max_size=6)), max_size=40).map(b"".join)


def read_in_pieces(output: bytes, cuts: list[int]) -> list[tuple[str, Any]]:
    reader = OutputReader()
    edges = [0, *sorted(cut % (len(output) + 1) for cut in cuts), len(output)]
    told = [reader.feed(output[start:end], 1.0) for start, end in pairwise(edges)]
    return [reading for readings in [*told, reader.close(1.0)] for reading in readings]


def same(a: object, b: object) -> bool:
    return repr(a) == repr(b)  # NaN is not equal to itself


@settings(max_examples=400, deadline=None)
@given(outputs, st.lists(st.integers(0, 10_000), max_size=30))
def test_readings_do_not_depend_on_how_the_bytes_are_split(output: bytes, cuts: list[int]) -> None:
    assert same(read_in_pieces(output, cuts), read_in_pieces(output, []))


@pytest.mark.parametrize("path", CAPTURED, ids=lambda path: path.stem)
@pytest.mark.parametrize("size", [1, 7, 64, 1024])
def test_captured_output_reads_the_same_in_pieces_of_any_size(path: Path, size: int) -> None:
    output = path.read_bytes()
    assert same(read_in_pieces(output, list(range(0, len(output), size))), read_in_pieces(output, []))


@settings(max_examples=50, deadline=None)
@given(st.integers(LINE_LIMIT - 60, LINE_LIMIT + 60), st.integers(0, 3 * LINE_LIMIT))
def test_a_cut_near_the_limit_of_a_line_changes_nothing(padding: int, cut: int) -> None:
    output = b"x" * padding + b" Epoch 3/10 loss=0.5" + b"y" * LINE_LIMIT + b"\nloss=0.25\n"
    assert same(read_in_pieces(output, [cut]), read_in_pieces(output, []))


@settings(max_examples=200, deadline=None)
@given(outputs)
def test_every_reading_keeps_the_contract(output: bytes) -> None:
    for kind, reading in read_in_pieces(output, []):
        if kind == "points":
            assert reading
            assert all(_is_point(point) for point in reading)
        else:
            assert kind == "progress"
            _check_progress(reading)


def _is_point(point: tuple[str, int, float, float]) -> bool:
    name, step, at, value = point
    right_types = (type(name), type(step), type(at), type(value)) == (str, int, float, float)
    return right_types and 0 < len(name) <= MAX_NAME_LENGTH and name == name.strip() and step >= 0


def _check_progress(told: dict[str, Any]) -> None:
    assert told
    assert set(told) <= {"fraction", "step", "steps", "epoch", "epochs", "message"}
    assert 0 <= told.get("fraction", 0) <= 1
    assert all(
        type(told[key]) is int and told[key] >= 0
        for key in ("step", "steps", "epoch", "epochs")
        if key in told
    )


def test_names_are_limited_in_length_and_number() -> None:
    lines = b"".join(b"epoch 1 n%d%s=0.5\n" % (n, b"x" * 70) for n in range(MAX_NAMES + 50))
    told = [points for kind, points in read_in_pieces(lines, []) if kind == "points"]
    assert len({name for points in told for name, *_ in points}) == MAX_NAMES


def test_a_long_name_is_cut() -> None:
    line = b'{"type":"progress","data":{"metrics":{"%s":1}}}\n' % (b"a b " * 100)
    (points,) = [points for kind, points in read_in_pieces(line, []) if kind == "points"]
    assert [len(name) for name, *_ in points] == [MAX_NAME_LENGTH - 1]  # the hundredth character was a space


def test_progress_is_limited_in_rate_and_the_last_is_kept() -> None:
    reader = OutputReader()
    told = []
    for n in range(1001):
        told += reader.feed(f"\r{n // 10}%|#| {n}/1000 [00:01<00:01, 9.9it/s]".encode(), n / 1000)
    told += reader.close(1.001)
    assert 3 <= len(told) <= 6
    assert told[-1] == ("progress", {"fraction": 1.0, "step": 1000, "steps": 1000})


def test_an_empty_feed_returns_progress_that_was_held_back() -> None:
    reader = OutputReader()
    assert reader.feed(b"Epoch 1/4 loss=1\n", 1.0)[-1] == (
        "progress",
        {"fraction": 0.25, "epoch": 1, "epochs": 4},
    )
    assert [kind for kind, _ in reader.feed(b"Epoch 2/4 loss=2\n", 1.1)] == ["points"]
    assert reader.feed(b"", 1.2) == []
    assert reader.feed(b"", 1.4) == [("progress", {"fraction": 0.5, "epoch": 2, "epochs": 4})]


def test_an_empty_feed_reads_an_idle_bar() -> None:
    reader = OutputReader()
    assert reader.feed(b"\r50%|#| 5/10 [00:01<00:01, 9.9it/s, loss=0.5]", 1.0) == []
    assert reader.feed(b"", 1.5) == []
    assert [kind for kind, _ in reader.feed(b"", 2.0)] == ["points", "progress"]
    assert reader.feed(b"", 9.0) == []


@pytest.mark.parametrize("path", CAPTURED, ids=lambda path: path.stem)
def test_pauses_in_captured_output_change_no_point(path: Path) -> None:
    reader, output, told = OutputReader(), path.read_bytes(), []
    for at in range(0, len(output), 11):
        told += reader.feed(output[at : at + 11], float(at)) + reader.feed(b"", at + 5.0)
    told += reader.close(1e9)
    assert _without_times(told) == _without_times(read_in_pieces(output, []))


def _without_times(told: list[tuple[str, Any]]) -> list[tuple[str, int, float]]:
    return [(name, step, value) for kind, found in told if kind == "points" for name, step, _, value in found]


def test_a_partial_line_that_is_taken_away_is_not_read() -> None:
    reader = OutputReader()
    told = reader.feed(b"Epoch 1/9 loss=0.5\nEpoch 2/9 loss=0.", 1.0)
    assert reader.take_partial_line() == b"Epoch 2/9 loss=0."
    told += reader.feed(b"Epoch 5/9 loss=0.1\n", 1.0)
    assert _without_times(told) == [("loss", 1, 0.5), ("loss", 5, 0.1)]


def test_progress_continues_when_the_clock_is_set_back() -> None:
    reader = OutputReader()
    reader.feed(b"Epoch 1/4 loss=1\n", 1000.0)
    assert [kind for kind, _ in reader.feed(b"Epoch 2/4 loss=2\n", 5.0)] == ["points", "progress"]


HOSTILE = [
    *[
        b"loss" + b" " * LINE_LIMIT,
        b"loss " + b"a" * LINE_LIMIT,
        b"epoch " + b"train " * 3000,
        b"epoch" * 4000,
    ],
    *[
        b"epoch " + b"1" * LINE_LIMIT,
        b"step " + b"a_b.c-d/" * 2000,
        b"loss: " * 3000,
        b"loss=" + b"1" * LINE_LIMIT,
    ],
    *[b"\x1b]" * 8000 + b"loss", b"\x1b[1" * 5000 + b"loss", b"{'" + b"'a': 1, " * 2000, b"%|" * 8000],
    *[
        b"a%|" + b"|" * LINE_LIMIT,
        b"a%|x| 1/1 [1<1, 1it/s" + b", a" * 5000 + b"]",
        b"[1]\t" + b"a:1\t" * 4000,
    ],
    *[
        b"5%|x| 1/2 [1<1, 1it/s]" * 700,
        "━ ".encode() * 4000 + " • ".encode(),
        b"1/2 1s 1ms/step " + b"- a" * 5000,
    ],
    *[b'{"type":"progress","data":' + b"[" * 8000 + b"]" * 8000 + b"}", b"[a " * 5000 + b"loss=0.1"],
    *[
        b"step 1: " + b"a " * 8000,
        b"epoch 1 [" + b"[" * 15000,
        b"it [" * 4000 + b"it/s",
        b"  " * 8000 + b"loss: 1",
    ],
]


@pytest.mark.parametrize("line", HOSTILE, ids=lambda line: repr(line[:20]))
def test_a_hostile_line_takes_linear_time(line: bytes) -> None:
    """A pattern that tries again for every character would need seconds; these need milliseconds."""
    reader = OutputReader()
    reader.feed("Epoch 1/2 ━━━━ 1/2 0:00:01 • 0:00:01 1.0it/s a: 1\nGPU_mem a\n".encode(), 0.0)
    started = time.process_time()
    reader.feed(line + b"\n", 1.0)
    assert time.process_time() - started < 0.5


def test_output_without_metrics_is_skipped_quickly() -> None:
    """20 MB/s is the aim; the bound leaves room for a busy machine and a slow processor."""
    line = (
        b"2024-05-01 12:30:11,123 INFO worker: handled request 8123 from 10.0.3.7 in 12 ms (/srv/0001.jpg)\n"
    )
    block = line * 650
    speeds = []
    for _ in range(5):
        reader = OutputReader()
        started = time.process_time()
        for _ in range(16):
            assert reader.feed(block, 1.0) == []
        speeds.append(len(block) * 16 / (time.process_time() - started))
    assert max(speeds) > 4e6


def test_the_package_imports_nothing_but_re_when_it_starts() -> None:
    folder = Path(anygpu.agent.parsers.__file__).parent
    imported = {
        name for path in folder.rglob("*.py") for name in _imports_at_the_top(ast.parse(path.read_text()))
    }
    assert {name for name in imported if not name.startswith(("anygpu.agent.parsers", "anygpu.bounds"))} == {
        "__future__",
        "re",
    }


def _imports_at_the_top(tree: ast.Module) -> list[str]:
    names = [node.module or "" for node in tree.body if isinstance(node, ast.ImportFrom)]
    return names + [alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names]
