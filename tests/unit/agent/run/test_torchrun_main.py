"""The exit code of torchrun, the commands of its processes, and their merged output."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anygpu.agent.run.rank_lines import RankSelection
from anygpu.agent.run.torchrun_main import (
    BAR_EVERY_S,
    HOLD_S,
    IDLE_S,
    MAX_LINE_BYTES,
    LineMerger,
    exit_code,
    name_of,
    split_arguments,
)


@pytest.mark.parametrize(
    ("failures", "code"),
    [
        ([(10, 1)], 1),
        ([(10, 3), (10, -15)], 3),
        ([(10, -9)], 137),
        ([(10, 1), (10, -9)], 137),  # rank 0 lost its connection to the killed rank
        ([(10, 1), (41, -9)], 1),  # torchrun killed a process that ignored SIGTERM
        ([(10, -15)], 1),
        ([(10, -11), (10, 1)], 139),
        ([(10, -6), (10, -9)], 137),  # NCCL aborts the processes that lose their connection
    ],
)
def test_a_killed_process_is_the_cause_of_the_others(failures: list[tuple[float, int]], code: int) -> None:
    assert exit_code(failures) == code


@pytest.mark.parametrize(
    ("target", "command", "name"),
    [
        (["train.py", "--lr=1"], [sys.executable, "-u", "train.py", "--lr=1"], "train.py"),
        (["-m", "pkg.train", "x"], [sys.executable, "-u", "-m", "pkg.train", "x"], "pkg.train"),
        (["--no-python", "bash", "-c", "make"], ["bash", "-c", "make"], "bash"),
        (["--no-python", "python", "-u", "t.py"], ["python", "-u", "t.py"], "t.py"),
    ],
)
def test_each_process_gets_the_command_that_torchrun_would_start(
    target: list[str], command: list[str], name: str
) -> None:
    options = ["--nnodes=1", "--nproc-per-node=2"]
    assert split_arguments([*options, *target]) == (options, command)
    assert name_of(command) == name


class Output:
    """The merged output of ranks 4, 5 and 6, at times of the test's choice."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.now = 0.0
        self.merger = LineMerger(self.parts.append, 4, 3)

    def feed(self, process: int, data: bytes, after_s: float = 0.0) -> bytes:
        """Return what is passed on because a process has printed `data`."""
        self.now += after_s
        self.parts.clear()
        self.merger.feed(process, data, self.now)
        return b"".join(self.parts)

    def wait(self, seconds: float) -> bytes:
        self.now += seconds
        self.parts.clear()
        self.merger.tick(self.now)
        return b"".join(self.parts)

    def close(self) -> bytes:
        self.parts.clear()
        self.merger.close()
        return b"".join(self.parts)


def test_the_first_process_is_unchanged_and_lines_of_others_have_their_rank() -> None:
    output = Output()
    assert output.feed(0, b"step=1 loss=0.5\n") == b"step=1 loss=0.5\n"
    assert output.feed(1, b"a\nb") == b"[rank 5] a\n"
    assert output.feed(2, b"\x1b[31mred\x1b[0m\n\n") == b"[rank 6] \x1b[31mred\x1b[0m\n[rank 6] \n"
    assert output.feed(0, b"\x00\xff\xfe") == b"\x00\xff\xfe"
    assert output.close() == b"\n[rank 5] b\n"


def test_lines_of_others_wait_for_the_end_of_a_line() -> None:
    output = Output()
    assert output.feed(0, b"step=1 ") == b"step=1 "
    assert output.feed(1, b"a\n") == output.feed(2, b"b\n") == output.wait(HOLD_S / 2) == b""
    assert output.feed(0, b"loss=1") == b"loss=1"
    assert output.feed(0, b"\nstep=2") == b"\n[rank 5] a\n[rank 6] b\nstep=2"
    assert output.feed(1, b"c\n") == output.wait(HOLD_S / 2) == b""
    assert output.wait(HOLD_S) == b"\n[rank 5] c\n"
    assert output.feed(1, b"d\n") == b"[rank 5] d\n"


def test_lines_of_others_come_between_two_states_of_a_progress_bar() -> None:
    output = Output()
    assert output.feed(0, b"\r 10%|#   |") == b"\r 10%|#   |"
    assert output.feed(1, b"a\n") == b""
    assert output.feed(0, b"\r 20%|##  |") == b"\n[rank 5] a\n\r 20%|##  |"
    assert output.feed(1, b"b\n") == b""
    assert output.feed(0, b" done\r\nnext") == b" done\r\n[rank 5] b\nnext"


def test_a_progress_bar_of_another_process_is_shown_from_time_to_time_and_at_its_end() -> None:
    output = Output()
    assert output.feed(1, b"\r 10%|#   |") == b""
    assert output.wait(0.1) == b"[rank 5]  10%|#   |\n"
    for percent in range(11, 90):
        assert output.feed(1, b"\r %d%%|##" % percent, after_s=0.1) == output.wait(0) == b""
    assert output.wait(BAR_EVERY_S) == b"[rank 5]  89%|##\n"
    assert output.feed(1, b"\r 90%|###\r 100%|####\nsaved\r\n") == b"[rank 5]  100%|####\n[rank 5] saved\n"
    assert output.feed(1, b"next\n") == b"[rank 5] next\n"


def test_a_line_that_does_not_end_is_passed_on_after_a_while_or_if_it_is_long() -> None:
    output = Output()
    assert output.feed(1, b"loading ...") == output.wait(IDLE_S / 2) == b""
    assert output.wait(IDLE_S) == b"[rank 5] loading ...\n"
    assert output.feed(1, b"\nready\n") == b"[rank 5] ready\n"
    long = b"x" * (MAX_LINE_BYTES + 1)
    assert output.feed(1, long) == b"[rank 5] " + long + b"\n"
    assert output.close() == b""


PRINTED = st.lists(
    st.tuples(
        st.integers(0, 2), st.text("ab[\r\n", max_size=6).map(str.encode), st.sampled_from([0, 0.3, 2])
    ),
    max_size=20,
)


@given(PRINTED)
def test_whole_lines_of_every_process_arrive_in_order(printed: list[tuple[int, bytes, float]]) -> None:
    output, merged = Output(), b""
    for process, data, after_s in printed:
        data = data.replace(b"\r", b"") + b"\n"
        merged += output.feed(process, data, after_s) + output.wait(0)
    merged += output.close()
    for process in (0, 1, 2):
        selection = RankSelection(4 + process, 4, 3)
        lines = (selection.feed(merged) + selection.close()).split(b"\n")
        expected = b"".join(data.replace(b"\r", b"") + b"\n" for each, data, _ in printed if each == process)
        prefix = b"[rank %d] " % (4 + process) if process else b""
        assert lines == [*(prefix + line for line in expected.split(b"\n")[:-1]), b""]


@given(PRINTED)
def test_the_first_process_loses_and_gains_nothing_but_line_ends(
    printed: list[tuple[int, bytes, float]],
) -> None:
    output, merged = Output(), b""
    for process, data, after_s in printed:
        merged += output.feed(process, data, after_s) + output.wait(0)
    merged += output.close()
    selection = RankSelection(4, 4, 3)
    shown = selection.feed(merged) + selection.close()
    expected = b"".join(data for process, data, _ in printed if process == 0)
    assert shown.replace(b"\n", b"") == expected.replace(b"\n", b"")
