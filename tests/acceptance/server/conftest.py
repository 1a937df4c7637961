"""Servers for tests."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.acceptance.server.real_server import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests of a module."""
    made = Server(tmp_path_factory.mktemp("server"))
    yield made
    made.cancel_everything()
    made.stop()


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server whose machine runs the jobs of a second organisation too."""
    made = Server(tmp_path_factory.mktemp("server"), ANYGPU_LOCAL__ORGANISATIONS="elsewhere")
    yield made
    made.cancel_everything()
    made.stop()


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Servers for a test that stops or configures them itself."""
    made: list[Server] = []

    def make(open_files: int | None = None, /, **environment: str) -> Server:
        made.append(Server(tmp_path, open_files, **environment))
        return made[-1]

    yield make
    for each in made:
        each.stop()
