"""A real agent process and the server it speaks to."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.fake_server import FakeServer
from tests.contracts.agent.tunnel import Tunnel, by_rendezvous


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


@pytest.fixture
def away(play: Callable[..., Agent]) -> Iterator[Callable[..., Agent]]:
    """play(), with the agent on another machine."""
    dug: list[Tunnel] = []

    def build(work: dict[str, object]) -> Agent:
        agent = play(work)
        by_rendezvous(agent)
        dug.append(Tunnel(agent.server.port))
        dug[-1].announce(agent)
        return agent

    yield build
    for tunnel in dug:
        tunnel.cut()
