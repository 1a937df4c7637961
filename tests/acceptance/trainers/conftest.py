"""The installed command, a real server, and a table to train on."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.cli.conftest import Shell, environment, stop
from tests.unit.trainers.tabular.tables import penguins


@pytest.fixture(scope="session")
def training_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    environ = environment(tmp_path_factory.mktemp("trainers"))
    Shell(Path(environ["HOME"]), environ)("up", "-d")
    yield environ
    stop(environ)


@pytest.fixture
def anygpu(training_server: dict[str, str], tmp_path: Path) -> Shell:
    project = tmp_path / "project"
    project.mkdir()
    penguins(project / "penguins.csv")
    return Shell(project, training_server)
