"""Labels of checkpoint files, and the first steps that an attempt reports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anygpu.agent.checkpoints.steps import HISTORY_LIMIT, StepHistory
from anygpu.agent.parsers.reader import OutputReader


def reported(*steps: tuple[float, int], unit: str = "step", restored: int = 0) -> StepHistory:
    history = StepHistory(restored)
    for at, step in steps:
        history.record(step, at, unit)
    return history


EPOCHS = [(1000.0 + 10 * epoch, epoch) for epoch in range(1, 6)]  # epoch 5 is reported at 1050


@pytest.mark.parametrize(
    ("written_at", "name", "epoch"),
    [
        (1050.002, "last.pt", 5),  # just after the line of epoch 5
        (1049.998, "last.pt", 5),  # just before
        (1045.0, "last.pt", 4),  # in the middle of epoch 5
        (1041.0, "last.pt", 4),
        (1009.9, "last.pt", 1),  # before anything was reported
        (1049.0, "ckpt_0005.pt", 5),  # long before the line, as evaluation came in between
        (1047.0, "epoch=5-step=812.ckpt", 5),
        (1055.0, "ckpt_0006.pt", 6),  # saved, not reported yet
        (1055.0, "ckpt_0009.pt", 5),  # does not agree with the reports
        (1045.0, "resnet50.pt", 4),
    ],
)
def test_a_file_has_the_step_of_the_report_that_belongs_to_it(
    written_at: float, name: str, epoch: int
) -> None:
    label = reported(*EPOCHS, unit="epoch").label_at(written_at, name)
    assert (label.step, label.unit, label.epoch) == (epoch, "epoch", epoch)


@given(
    lengths=st.lists(st.floats(0.05, 600), min_size=1, max_size=30),
    share=st.floats(0, 0.2),
    saves_first=st.booleans(),
    data=st.data(),
)
def test_a_file_saved_beside_the_line_of_its_epoch_has_the_label_of_that_epoch(
    lengths: list[float], share: float, saves_first: bool, data: st.DataObject
) -> None:
    """The agent reads a line after at most a fifth of the shortest epoch, and at most half a second."""
    delay_s = min(0.5, share * min(lengths))
    history, now, files = StepHistory(), 1000.0, []
    for epoch, length_s in enumerate(lengths, 1):
        now += length_s
        gap_s = data.draw(st.floats(0, delay_s / 2))
        printed_at = now + gap_s if saves_first else now
        history.record(epoch, printed_at + delay_s / 2, "epoch")
        files.append((epoch, now if saves_first else now + gap_s))
    assert [history.label_at(at, "last.pt").step for _, at in files] == [epoch for epoch, _ in files]


def test_steps_that_start_again_are_labelled_as_reported() -> None:
    history = reported((10.0, 1), (20.0, 2), restored=500)
    assert history.label_at(21.0).step == 2


def test_before_any_report_a_file_has_the_step_of_the_restored_checkpoint() -> None:
    assert StepHistory(500).label_at(10.0, "last.pt").step == 500
    assert reported((1000.0, 501), restored=500).label_at(10.0).step == 500


def test_without_reports_a_named_number_is_the_step() -> None:
    label = StepHistory().label_at(10.0, "out/checkpoint-400/weights.pt")
    assert (label.step, label.unit) == (400, "")
    assert StepHistory().label_at(10.0, "resnet50.pt").step == 0


def test_the_finest_unit_is_the_step_and_the_epoch_is_kept_beside_it() -> None:
    history = reported(*EPOCHS, unit="epoch")
    history.record(812, 1050.0, "count")
    assert (label := history.label_at(1051.0)).step == 812
    assert (label.unit, label.epoch) == ("count", 5)
    history.record(900, 1050.5, "step")
    assert history.label_at(1051.0).unit == "step"
    history.forget("step")
    assert history.label_at(1051.0).unit == "count"


@pytest.mark.parametrize(
    ("logged", "announced", "unit"), [(100, 150, "step"), (0, 5, "step"), (5, 500, ""), (None, 500, "step")]
)
def test_an_announced_step_counts_the_same_as_the_reports_or_its_unit_is_unknown(
    logged: int | None, announced: int, unit: str
) -> None:
    history = StepHistory()
    history.record(logged, 1.0)
    assert history.label_for(announced).unit == unit


def test_a_long_history_keeps_its_newest_steps_exactly() -> None:
    history = reported(*((float(step), step) for step in range(1, 3 * HISTORY_LIMIT)))
    newest = 3 * HISTORY_LIMIT - 1
    assert [history.label_at(at + 0.5).step for at in range(newest - 500, newest)] == [
        *range(newest - 500, newest)
    ]


def test_the_first_step_of_each_unit_is_told_once() -> None:
    told: list[dict[str, int]] = []
    history = StepHistory(500, told.append)
    for step in (501, 502):
        history.record(step)
        history.record(step, unit="")  # counted by the agent, not stated by the script
    history.record(5, unit="epoch")
    assert told == [{"first_step": 501}, {"first_epoch": 5}]


@pytest.mark.parametrize(
    ("output", "first", "last"),
    [
        (b"Epoch 6/10\nEpoch 7/10\n", {"epoch": 5}, {"epoch": 6}),
        (b"epoch 6 loss 0.5\nepoch 7 loss 0.4\n", {"epoch": 6}, {"epoch": 7}),
        (b"step 501 loss 0.5\nstep 502 loss 0.5\n", {"step": 501}, {"step": 502}),
        (b"epoch 6 step 10 loss 0.5\n", {"epoch": 5}, {"epoch": 5}),
        (b"step 1 loss 0.5\nstep 9 loss 0.5\nstep 1 loss 0.5\n", {"step": 1}, {}),
        ("50%|█| 5/10 [00:01<00:01, 9.9it/s, loss=0.5]\n".encode(), {"count": 5}, {"count": 5}),
        (b"[0]\ttrain-auc:0.5\n[1]\ttrain-auc:0.6\n", {"count": 0}, {"count": 1}),
        (b"loss 0.5\nloss 0.4\n", {}, {}),
    ],
)
def test_the_output_shows_where_a_run_began(
    output: bytes, first: dict[str, int], last: dict[str, int]
) -> None:
    """A count that may start again in each epoch, or after a resume, is no step of the whole run."""
    reader = OutputReader()
    reader.feed(output, 1.0)
    assert (reader.first_steps, reader.last_steps) == (first, last)
