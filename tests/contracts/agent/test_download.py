"""Downloads that break off or whose URL has expired."""

from __future__ import annotations

from collections.abc import Callable

from tests.contracts.agent.agent_process import Agent
from tests.contracts.agent.job_files import sha

Play = Callable[..., Agent]


def test_a_broken_download_is_resumed(play: Play) -> None:
    data = bytes(range(256)) * 20000
    agent = play({"code": "import os\nprint(os.path.getsize(os.environ['ANYGPU_DATASET']))"})
    agent.server.files["/file/digits.npz"] = data
    agent.server.work["dataset"] = {"path": None, "url": "/file/digits.npz", "sha256": sha(data)}
    part = agent.directory / "dataset" / "digits.npz.part"
    part.parent.mkdir()
    part.write_bytes(data[:1000])
    assert agent.run() == 0
    assert int(agent.server.log) == len(data)
