"""A lab for each test, and the model that every interrupted job must produce."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.workers.lab import Lab, open_lab


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The hash of the model of a run that nothing interrupts."""
    with open_lab(tmp_path_factory.mktemp("undisturbed")) as lab:
        lab.worker()
        job = lab.submit(step_s=0)
        assert len(lab.wait_completed(job)["attempts"]) == 1
        return lab.model(job)


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with open_lab(tmp_path) as made:
        yield made
