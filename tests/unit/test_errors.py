"""Errors speak to the person who must act."""

import re

import pytest

from anygpu.errors import AnygpuError, InvalidSpec, NoCapacity, Problem, ReportGap, every_error

KINDS = list(every_error())


def test_codes_are_unique_and_stable_in_form() -> None:
    codes = [kind.code for kind in KINDS]
    assert len(codes) == len(set(codes))
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", code) for code in codes)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_without_a_message_says_what_happened_and_what_to_do(kind: type[AnygpuError]) -> None:
    error = kind()
    assert error.message.endswith(".")
    assert error.hint
    assert str(error) == f"{error.message} {error.hint}"


def test_a_message_and_a_hint_make_one_text() -> None:
    error = NoCapacity("No H100 in this region", hint="Allow another.", region="eu")
    assert (str(error), error.details) == ("No H100 in this region. Allow another.", {"region": "eu"})
    assert (error.retryable, error.code) == (True, "no_capacity")


def test_details_are_kept() -> None:
    assert ReportGap(expected=5).details == {"expected": 5}


def test_an_invalid_spec_lists_every_problem() -> None:
    error = InvalidSpec(
        [
            Problem("resources.gpus", 2, "unknown key", "did you mean 'gpu'?", "job.yaml", 4),
            Problem("", None, "empty"),
        ]
    )
    assert str(error) == "job.yaml:4 resources.gpus: unknown key; did you mean 'gpu'?\nempty"
    assert error.details["problems"][0]["place"] == "resources.gpus"
