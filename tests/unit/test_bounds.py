"""Whatever a script reports, and whatever the agent makes of it, the server accepts."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from anygpu import bounds, job
from anygpu.agent.checkpoints.steps import StepHistory
from anygpu.agent.delivery import end_message
from anygpu.agent.link.reporter import Reporter
from anygpu.agent.link.spool import Spool
from anygpu.agent.parsers.reader import OutputReader
from anygpu.agent.run.metrics import ScriptReports
from anygpu.control.agents.ends import parse_end
from anygpu.store.blobs.manifest import MAX_NUMBER
from anygpu.store.report_format import parse_report
from anygpu.store.reports import ReportBatch

HUGE = st.sampled_from(
    [2**53 - 1, 2**53, -(2**53), 2**63, -(2**63), 10**400, -(10**400), 10**4000, 1e308, math.inf, math.nan]
)
NUMBERS = st.integers() | st.floats() | st.booleans() | HUGE
ODD_NAMES = st.sampled_from(["", "\0", "\ud800", "x" * 201, "größe", "a\nb", "🚀" * 200])
NAMES = st.text(max_size=10) | st.text(st.characters(), max_size=250) | ODD_NAMES
WORDS = st.text(st.characters(), max_size=30) | st.sampled_from(["\0", "\udfff", "x" * 5000])
CALLS = st.one_of(
    st.tuples(st.just("log"), st.dictionaries(NAMES, NUMBERS | WORDS, max_size=4), st.none() | NUMBERS),
    st.tuples(
        st.just("progress"),
        st.dictionaries(st.sampled_from(["step", "steps", "epoch", "epochs", "fraction"]), NUMBERS),
        WORDS,
    ),
)
ANY_JSON = st.recursive(
    st.none() | NUMBERS | WORDS, lambda v: st.lists(v, max_size=3) | st.dictionaries(NAMES, v, max_size=3)
)
LINES = st.fixed_dictionaries(
    {},
    optional={"m": st.dictionaries(NAMES, ANY_JSON, max_size=4) | ANY_JSON, "t": NUMBERS, "s": ANY_JSON}
    | {"p": st.dictionaries(st.sampled_from(["step", "epochs", "fraction", "message"]), ANY_JSON) | ANY_JSON},
)
PROPERTY = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Link:
    """The agent's path from a report to the server's parser."""

    def __init__(self, directory: Path) -> None:
        self.spool = Spool(str(directory), 2**30)
        self.reporter = Reporter(self.spool, 1.0, 65536, wake_sender=lambda: None)
        self.warnings: list[str] = []

    def read_script(self, path: Path) -> ScriptReports:
        reports = ScriptReports(str(path), StepHistory())
        reports.on_points = self.reporter.add_points
        reports.on_progress = self.reporter.update_progress
        reports.on_warning = self.warnings.append
        reports.read()
        return reports

    def deliver(self) -> list[ReportBatch]:
        """Send every frame to the server's parser, then the end; return the batches. Nothing may be refused."""
        self.reporter.flush()
        batches = []
        while not self.spool.is_empty:
            first, last, body = self.spool.batch(2**20)
            assert len(body) <= 2**20
            batches.append(parse_report(body, first, last))
            assert batches[-1].dropped == ()
            self.spool.acknowledge(last)
        ending = parse_end(json.loads(json.dumps(end_message("exited", self.spool, exit_code=0))))
        assert ending.step == self.spool.step
        return batches


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path]:
    """Return a function that starts a fresh `anygpu.job` and returns the path of its reports."""
    runs = iter(range(10**6))

    def start() -> Path:
        directory = tmp_path / str(next(runs))
        directory.mkdir()
        monkeypatch.setattr(job, "_directory", str(directory))
        monkeypatch.setattr(job, "_fd", -1)
        monkeypatch.setattr(job, "_warned", set())
        monkeypatch.setattr(job, "_pending_progress", {})
        return directory / "points.jsonl"

    return start


def call(name: str, values: dict[str, Any], extra: Any) -> None:
    if name == "log":
        job.log(values, step=extra)
    else:
        job.progress(**values, message=extra)


@PROPERTY
@given(calls=st.lists(CALLS, max_size=8))
@example(calls=[("log", {"loss": 1}, 2**60)])
@example(calls=[("log", {"loss": 10**400, "other": 1.5}, 10**4000)])
@example(calls=[("progress", {"fraction": 1e308, "step": -1}, "\ud800")])
def test_the_server_accepts_whatever_a_script_reports(
    script: Callable[[], Path], calls: list[tuple[str, dict[str, Any], Any]]
) -> None:
    path = script()
    for each in calls:
        call(*each)
    job._append({})
    link = Link(path.parent / "spool")
    link.read_script(path)
    link.deliver()


@PROPERTY
@given(lines=st.lists(LINES, max_size=6))
def test_the_server_accepts_whatever_is_written_to_the_report_file(
    tmp_path_factory: pytest.TempPathFactory, lines: list[dict[str, Any]]
) -> None:
    directory = tmp_path_factory.mktemp("raw")
    path = directory / "points.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    link = Link(directory / "spool")
    link.read_script(path)
    link.deliver()


TOKENS = st.sampled_from(
    [
        "Epoch",
        " ",
        "999999999/999999999",
        "[999999999999/1]",
        "loss=",
        "loss: ",
        "1e9999",
        "nan",
        "step=999999999999",
        "\n",
        "\r",
        "99999999999999999999E/99999999999999999999E [00:01<00:02, 3it/s]",
        " 50%|##| ",
        "epochs:",
        '{"type":"progress","data":{"epoch":1e14,"step":9e14,"progress":1e308,"metrics":{"\\ud800":1,"a":1e400}}}',
        '{"type":"progress","data":{"message":"\\udfff\\u0000","metrics":{"b":"-Infinity"}}}',
        "[999999999999]\ttrain-rmse:0.5",
    ]
)


@PROPERTY
@given(st.lists(TOKENS, max_size=30).map("".join))
def test_the_server_accepts_whatever_is_read_from_output(
    tmp_path_factory: pytest.TempPathFactory, text: str
) -> None:
    link = Link(tmp_path_factory.mktemp("output") / "spool")
    reader = OutputReader()
    for kind, reading in [*reader.feed(text.encode(), 5.0), *reader.close(6.0)]:
        link.reporter.add_points(reading) if kind == "points" else link.reporter.update_progress(reading)
    link.deliver()


def test_a_step_out_of_range_is_dropped_with_one_warning_and_its_value_is_kept(
    script: Callable[[], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = script()
    for number in range(3):
        job.log(loss=number, step=1_763_240_000_000_000_000 + number)
    assert capsys.readouterr().err.count("the step of anygpu.log is ignored") == 1
    link = Link(path.parent / "spool")
    link.read_script(path)
    (batch,) = link.deliver()
    assert [(point.name, point.step, point.value) for _, points in batch.points for point in points] == [
        ("loss", 1, 0.0),
        ("loss", 2, 1.0),
        ("loss", 3, 2.0),
    ]
    assert link.warnings == []


def test_an_integer_that_python_does_not_print_is_ignored(
    script: Callable[[], Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = script()
    job.log(loss=10**5000, other=1.5, step=10**5000)
    assert capsys.readouterr().err.count("a whole number with thousands of digits") == 2
    assert json.loads(path.read_text())["m"] == {"other": 1.5}


def test_the_agent_warns_once_about_each_kind_of_value(tmp_path: Path) -> None:
    path = tmp_path / "points.jsonl"
    wide = {f"m{number}": 1 for number in range(bounds.MAX_METRIC_NAMES + 5)}
    lines = [{"m": {"a": 1}, "t": 1, "s": 2**53}, {"m": {"a": 2, "x" * 201: 1}, "t": 1, "s": 2**53}]
    lines += [{"m": {"big": 10**400}, "t": 1}, {"p": {"fraction": 7, "epoch": 2}}, {"m": wide, "t": 1}]
    lines += [{"m": {"late": 1}, "t": at} for at in (1e20, -1.0, math.nan)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    link = Link(tmp_path / "spool")
    assert link.read_script(path).malformed_lines == 0
    batches = link.deliver()
    assert len(link.warnings) == 6
    assert [batch.progress for batch in batches if batch.progress] == [{"epoch": 2}]
    names = {point.name for batch in batches for _, points in batch.points for point in points}
    assert len(names) == bounds.MAX_METRIC_NAMES


@pytest.mark.parametrize("step", [2**53, -(2**53), 10**30])
def test_an_end_report_of_an_older_agent_with_a_huge_step_is_accepted(step: int) -> None:
    assert parse_end({"outcome": "exited", "exit_code": 0, "step": step}).step is None


def test_every_count_is_valid_as_the_step_of_a_checkpoint() -> None:
    assert bounds.MAX_INTEGER <= MAX_NUMBER


def test_texts_are_cut_and_become_valid_unicode() -> None:
    assert bounds.to_text("a\0b\ud800c" + "x" * 50, 6) == "a?b?cx"
    assert bounds.to_text("größe 🚀", 100) == "größe 🚀"
