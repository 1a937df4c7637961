"""Parsing within a CPU budget: whatever is skipped, the last values are right."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anygpu.agent.parsers.reader import OutputReader
from anygpu.agent.run.backlog import OutputBacklog
from anygpu.agent.run.parsing import CPU_BURST_S, OutputParser


class Clocks:
    """A wall clock that stands still unless set, and a CPU clock that advances with every reading of it."""

    def __init__(self, cpu_step_s: float) -> None:
        self.wall_s, self.cpu_s, self._cpu_step_s = 0.0, 0.0, cpu_step_s

    def wall(self) -> float:
        return self.wall_s

    def cpu(self) -> float:
        self.cpu_s += self._cpu_step_s
        return self.cpu_s


def make_parser(clocks: Clocks, backlog: OutputBacklog | None = None) -> tuple[OutputParser, list[Any]]:
    readings: list[Any] = []
    parser = OutputParser(lambda found, at: readings.extend(found), backlog, clocks.wall, clocks.cpu)
    return parser, readings


def last_values(readings: list[Any]) -> dict[str, str]:
    points = [point for kind, found in readings if kind == "points" for point in found]
    return {name: repr(value) for name, _, _, value in points}


def last_progress(readings: list[Any]) -> dict[str, Any]:
    found = [reading for kind, reading in readings if kind == "progress"]
    return found[-1] if found else {}


def unlimited(output: bytes) -> list[Any]:
    reader = OutputReader()
    return [*reader.feed(output, 1.0), *reader.close(2.0)]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(marks)]


NUMBERS = st.floats(0.001, 999.0).map(lambda number: f"{number:.4f}")
LINES = st.one_of(
    st.builds("Epoch {}/90 loss={} acc: {}".format, st.integers(1, 90), NUMBERS, NUMBERS),
    st.builds("epoch {} val_loss: {}".format, st.integers(1, 90), NUMBERS),
    st.builds("Epoch {} of 90 - train loss {} | val loss {}".format, st.integers(1, 90), NUMBERS, NUMBERS),
    st.builds("[{}]\ttrain-rmse:{}\teval-rmse:{}".format, st.integers(0, 99), NUMBERS, NUMBERS),
    st.builds("lr={} grad_norm={} epoch={}".format, NUMBERS, NUMBERS, st.integers(1, 90)),
    st.builds("test_loss: {}".format, NUMBERS),
    st.sampled_from(["downloading loss weights", "a line of prose", "", "x" * 300, "epoch", "iteration"]),
)
STREAMS = st.lists(LINES, max_size=60).map(lambda lines: "".join(line + "\n" for line in lines).encode())


@settings(max_examples=200, deadline=None)
@given(STREAMS, st.lists(st.integers(0, 5000), max_size=12), st.integers(1, 400), st.sets(st.integers(0, 12)))
@example(b"Epoch 1/90 val_loss: 0.5\n" + b"Epoch 2/90 loss=0.2 acc: 0.5\n" * 50, [30, 200, 900], 100, set())
@example(b"Epoch 1/90 loss=0.1 acc: 0.5\nEpoch 2/90 loss=0.2 acc: 0.6", [45], 1, {0})
def test_the_last_values_equal_those_of_an_unlimited_parse(
    output: bytes, places: list[int], limit_bytes: int, ticks: set[int]
) -> None:
    clocks = Clocks(cpu_step_s=10.0)
    parser, readings = make_parser(clocks, OutputBacklog(limit_bytes, limit_lines=7))
    for number, piece in enumerate(cut(output, places)):
        parser.feed(piece)
        if number in ticks:
            clocks.wall_s += 1000.0
            parser.tick()
    parser.close()
    expected = unlimited(output)
    assert last_values(readings) == last_values(expected)
    position = ("epoch", "epochs", "fraction")
    assert [last_progress(readings).get(name) for name in position] == [
        last_progress(expected).get(name) for name in position
    ]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(["Epoch 3/9", " loss=0.5", "\n", "\r", "ä", "9", "acc: 1"]), max_size=80))
def test_any_output_ends_with_the_values_of_its_tail(tokens: list[str]) -> None:
    output = "".join(tokens).encode()
    clocks = Clocks(cpu_step_s=10.0)
    parser, readings = make_parser(clocks, OutputBacklog(limit_bytes=40, limit_lines=3))
    for at in range(0, len(output), 7):
        parser.feed(output[at : at + 7])
    parser.close()
    tail = last_values(unlimited(output[-20:].partition(b"\n")[2] if len(output) > 20 else output))
    assert tail.items() <= last_values(readings).items()


def test_within_the_backlog_every_value_is_read_and_nothing_is_skipped() -> None:
    clocks = Clocks(cpu_step_s=10.0)
    parser, readings = make_parser(clocks)
    for epoch in range(1, 20_001):
        parser.feed(b"Epoch %d/20000 loss=%d.5\n" % (epoch, epoch))
    parser.close()
    assert len([kind for kind, _ in readings if kind == "points"]) == 20_000
    assert (parser.skipped_lines, parser.line_count) == (0, 20_000)
    assert last_progress(readings)["epoch"] == 20_000


def test_skipped_lines_are_counted() -> None:
    parser, readings = make_parser(Clocks(cpu_step_s=10.0), OutputBacklog(limit_bytes=10_000, limit_lines=50))
    parser.feed(b"Epoch 1/999 loss=0.5\n")
    for epoch in range(2, 1000):
        parser.feed(b"Epoch %d/999 loss=0.5\n" % epoch)
    parser.close()
    parsed = len([kind for kind, _ in readings if kind == "points"])
    assert parser.line_count == 999
    assert parsed + parser.skipped_lines == 999
    assert 0 < parsed < 200


def test_time_that_other_programs_use_does_not_count() -> None:
    """The parser waits for a busy CPU: the wall clock advances, the CPU time of the thread does not."""
    clocks = Clocks(cpu_step_s=0.0)
    parser, readings = make_parser(clocks)
    for epoch in range(1, 100):
        clocks.wall_s += 100 * CPU_BURST_S
        parser.feed(b"Epoch %d/100 loss=0.5\n" % epoch)
        assert len([kind for kind, _ in readings if kind == "points"]) == epoch


def test_the_backlog_is_parsed_when_there_is_budget_again() -> None:
    clocks = Clocks(cpu_step_s=10.0)
    parser, readings = make_parser(clocks)
    parser.feed(b"Epoch 1/9 loss=0.5\nEpoch 2/9 lo")
    parser.feed(b"ss=0.25\nEpoch 3/9 loss=0.125\n")
    assert last_values(readings) == {"loss": "0.5"}
    clocks.wall_s = 1000.0
    parser.tick()
    assert last_values(readings) == {"loss": "0.125"}


@pytest.mark.parametrize("count", [1, 30])
def test_a_line_without_end_takes_limited_memory(count: int) -> None:
    backlog = OutputBacklog(limit_bytes=100_000)
    parser, readings = make_parser(Clocks(cpu_step_s=10.0), backlog)
    parser.feed(b"Epoch 1/9 loss=0.5\nEpoch 2/9 loss=0.25 ")
    for _ in range(count):
        parser.feed(b"x" * 65536)
        assert backlog._bytes <= 200_000
    parser.feed(b"\nEpoch 3/9 acc=0.5\n")
    parser.close()
    assert last_values(readings)["acc"] == "0.5"
