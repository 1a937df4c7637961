"""What happens to the tests of an engine that this machine does not have. Needs no engine itself."""

import os

import pytest
from tests.clusters.conftest import report_missing_engine


def test_without_root_a_missing_engine_is_a_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(pytest.skip.Exception, match="Slurm cannot run here: no network"):
        report_missing_engine("Slurm", "no network")


def test_for_root_a_missing_engine_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    with pytest.raises(pytest.fail.Exception, match="Slurm cannot run here: no network"):
        report_missing_engine("Slurm", "no network")
