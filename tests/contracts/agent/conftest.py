"""A real agent process and the server it speaks to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.fake_server import FakeServer


@pytest.fixture
def play(tmp_path: Path) -> Iterator[Callable[..., Agent]]:
    """play(work, **assignment) -> an Agent whose server is listening."""
    with ExitStack() as stack:

        def build(work: dict[str, Any], **assignment: Any) -> Agent:
            server = stack.enter_context(FakeServer(work, **assignment).listening())
            agent = Agent(server, tmp_path / f"attempt-{server.port}")
            stack.callback(agent.end)
            return agent

        yield build
