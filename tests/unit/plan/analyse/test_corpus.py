"""The corpus: what the analyser reads against what a person reads, and the page that says so."""

from pathlib import Path

import pytest
from tests.unit.plan.analyse import report, scoring

ROOT = Path(__file__).parents[4]


def test_the_corpus_has_at_least_25_scripts_with_a_truth_each() -> None:
    assert len(scoring.cases()) >= 25


@pytest.mark.parametrize("field", scoring.FIELDS)
def test_a_field_is_read_right_nine_times_in_ten(field: str) -> None:
    score = scoring.score(field)
    assert score.precision >= 0.9, "\n".join(scoring.differences())
    assert score.recall >= 0.9, "\n".join(scoring.differences())


def test_every_value_says_where_it_stands_and_how_sure_it_is() -> None:
    for case in scoring.cases():
        for field in (*scoring.VALUES, *scoring.YES_NO):
            found = getattr(case.read, field)
            if found is not None:
                assert found.file, (case.name, field)
                assert 0 < found.confidence <= 1, (case.name, field)


def test_a_value_of_the_code_names_the_line_it_is_on() -> None:
    case = next(c for c in scoring.cases() if c.name == "lstm_config_dict")
    lines = (scoring.SCRIPTS / "lstm_config_dict.py").read_text().splitlines()
    assert case.read.batch_size is not None
    assert "256" in lines[case.read.batch_size.line - 1]
    assert case.read.workers is not None
    assert "num_workers=0" in lines[case.read.workers.line - 1]


def test_a_framework_default_is_trusted_less_than_what_is_written() -> None:
    by_name = {case.name: case.read for case in scoring.cases()}
    written, assumed = by_name["hf_vit_images"].workers, by_name["hf_glue_trainer"].workers
    assert written is not None
    assert assumed is not None
    assert written.confidence > assumed.confidence


def test_every_script_gets_characteristics_with_an_honest_interval() -> None:
    for case in scoring.cases():
        job = case.read.characteristics
        assert job is not None
        low, high = job.duration_range_hours
        assert low < job.duration_hours.value < high


def test_a_job_is_interruptible_only_when_it_saves_and_resumes() -> None:
    for case in scoring.cases():
        job = case.read.characteristics
        assert job is not None
        assert job.interruptible.value == (case.truth["checkpointing"] and case.truth["resuming"]), case.name


def test_the_page_shows_what_is_measured() -> None:
    page = (ROOT / "docs" / "explanation" / "analysis.md").read_text()
    assert page == report.page(), "run: python -m tests.unit.plan.analyse.report"
