"""Errors and their HTTP statuses."""

import json

import pytest

import anygpu.server.http.downloads
import anygpu.server.process.state
import anygpu.settings  # noqa: F401 - their errors register themselves
from anygpu import errors
from anygpu.backends.celery.broker import BrokerUnknown
from anygpu.backends.kubernetes.cluster import AnswerLost
from anygpu.backends.slurm.shell import ClusterOutcomeUnknown
from anygpu.errors import InvalidSpec, NotFound, Problem, RateLimited, ReportGap, Unauthorized, every_error
from anygpu.server.http.errors import (
    STATUS,
    error_for_status,
    error_for_validation,
    problem_response,
    status_of,
)


def kinds_of_the_server() -> list[type[errors.AnygpuError]]:
    """Without what only clients raise."""
    return [
        kind
        for kind in every_error()
        if not kind.__module__.startswith(("anygpu.sdk", "anygpu.cli", "tests"))
    ]


@pytest.mark.parametrize("kind", kinds_of_the_server(), ids=lambda kind: kind.code)
def test_every_error_has_a_status(kind: type[errors.AnygpuError]) -> None:
    families = [each.code for each in kind.__mro__ if issubclass(each, errors.AnygpuError)]
    assert any(code in STATUS for code in families), "it would be an internal error"
    assert 400 <= status_of(kind()) <= 599


def test_every_status_belongs_to_an_error_that_exists() -> None:
    assert set(STATUS) <= {kind.code for kind in every_error()}


def test_an_error_without_a_status_has_that_of_its_parent() -> None:
    class Odd(errors.Superseded):
        """Odd. Do something."""

        code = "odd"

    assert status_of(Odd()) == 409


@pytest.mark.parametrize("kind", [AnswerLost, BrokerUnknown, ClusterOutcomeUnknown])
def test_an_engine_that_does_not_answer_is_no_error_of_the_server(kind: type[errors.AnygpuError]) -> None:
    assert (status_of(kind()), kind.retryable) == (503, True)
    assert not issubclass(kind, errors.LaunchError)  # the attempt may run


def test_a_problem_has_place_message_and_suggestion() -> None:
    error = InvalidSpec([Problem("resources.gpus", 2, "unknown key", "did you mean 'gpu'?")])
    answer = problem_response(error)
    body = json.loads(bytes(answer.body))
    assert answer.media_type == "application/problem+json"
    assert (answer.status_code, body["status"], body["code"]) == (422, 422, "invalid_spec")
    assert body["problems"][0]["suggestion"] == "did you mean 'gpu'?"


def test_details_of_an_error_are_members_of_its_problem() -> None:
    assert json.loads(bytes(problem_response(ReportGap(expected=5)).body))["expected"] == 5


def test_values_that_json_lacks_do_not_break_the_response() -> None:
    error = InvalidSpec([Problem("config.x", float("nan"), "not a number")])
    assert json.loads(bytes(problem_response(error).body))["problems"][0]["value"] == "NaN"
    assert problem_response(NotFound("no \ud800 here")).status_code == 404


def test_headers_tell_to_log_in_or_to_wait() -> None:
    assert "Bearer" in problem_response(Unauthorized()).headers["www-authenticate"]
    assert problem_response(RateLimited(retry_after_s=1.2)).headers["retry-after"] == "2"


def test_errors_of_the_framework_are_problems_too() -> None:
    assert error_for_status(404).code == "not_found"
    assert error_for_status(405).code == "method_not_allowed"
    assert error_for_status(500).code == "internal"


def test_a_wrong_parameter_is_named() -> None:
    found = error_for_validation([{"loc": ("query", "limit"), "input": "x", "msg": "should be an integer"}])
    assert found.problems[0].place == "query.limit"


def test_a_value_that_does_not_match_a_pattern_is_named() -> None:
    complaint = {"loc": ("path", "name"), "input": "bad name", "msg": "no", "ctx": {"pattern": "^[a-z]+$"}}
    assert (
        error_for_validation([complaint]).problems[0].message
        == "'bad name' does not match the pattern ^[a-z]+$"
    )
