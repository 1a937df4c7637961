"""A job whose files could not be found is refused with what to do instead."""

from typing import Any

import pytest

from anygpu.spec.checks.workdir import workdir_problems
from anygpu.spec.load import from_mapping

SHA256 = "ab" * 32


def places(may_run_in_place: bool = True, **spec: Any) -> list[str]:
    job = from_mapping({"script": "train.py", **spec})
    problems = list(workdir_problems(job, may_run_in_place=may_run_in_place))
    assert all(problem.message for problem in problems)
    return [problem.place for problem in problems]


@pytest.mark.parametrize(
    "workdir",
    [None, {"path": "/home/ada/digits"}, {"manifest": SHA256, "snapshot": True}, {"archive": SHA256}],
)
def test_a_job_with_its_files_has_no_problem(workdir: dict[str, Any] | None) -> None:
    assert places(workdir=workdir) == []


def test_a_directory_of_the_server_is_only_for_its_own_organisation() -> None:
    assert places(may_run_in_place=False, workdir={"path": "/home/ada/digits"}) == ["workdir.path"]
    assert places(may_run_in_place=False, workdir={"manifest": SHA256}) == []


def test_a_directory_that_was_neither_uploaded_nor_given_by_an_absolute_path_is_refused() -> None:
    assert places(workdir={"path": "digits"}) == ["workdir.path"]
    assert places(workdir={"snapshot": True}) == ["workdir.snapshot"]


@pytest.mark.parametrize("script", ["../train.py", "/home/ada/train.py"])
def test_a_script_outside_the_uploaded_directory_is_refused(script: str) -> None:
    assert places(script=script, workdir={"manifest": SHA256}) == ["script"]
