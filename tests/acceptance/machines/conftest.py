"""A server for the tests of a module that use machines over SSH."""

from collections.abc import Iterator

import pytest
from tests.acceptance.machines.cloud import Server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server without a cloud. It must not log an unexpected error."""
    made = Server(tmp_path_factory.mktemp("server"), "", ANYGPU_CONTROL__SAFETY_NET_S="0.5")
    yield made
    made.stop()
    log = (made.folder / "server.log").read_text()
    assert "Traceback" not in log, log
