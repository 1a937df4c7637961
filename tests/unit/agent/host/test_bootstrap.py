"""The program that receives the agent over SSH, here without SSH."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from anygpu.agent.build import build_pyz
from anygpu.agent.host import bootstrap

PREFIX = b"anygpu:"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, str]:
    path = tmp_path_factory.mktemp("agent") / "agent.pyz"
    sha256 = build_pyz(path)
    return path.read_bytes(), sha256


def send(home: Path, data: bytes, sha256: str, size: int) -> list[dict[str, Any]]:
    transfer = {"sha256": sha256, "size": size, "draft": "d", "request": {"do": "list"}}
    done = subprocess.run(
        [sys.executable, "-I", "-c", Path(bootstrap.__file__).read_text()],
        input=json.dumps(transfer).encode() + b"\n" + data,
        env={"HOME": str(home), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        check=False,
    )
    return [
        json.loads(line.removeprefix(PREFIX)) for line in done.stdout.splitlines() if line.startswith(PREFIX)
    ]


def test_the_agent_is_received_once(tmp_path: Path, archive: tuple[bytes, str]) -> None:
    data, sha256 = archive
    assert send(tmp_path, data, sha256, len(data)) == [{"send_from": 0}, {"names": []}]
    assert send(tmp_path, b"", sha256, len(data)) == [{"names": []}]


def test_a_broken_transfer_is_continued(tmp_path: Path, archive: tuple[bytes, str]) -> None:
    data, sha256 = archive
    assert send(tmp_path, data[:1000], sha256, len(data)) == [{"send_from": 0}]
    assert send(tmp_path, data[1000:], sha256, len(data)) == [{"send_from": 1000}, {"names": []}]


def test_a_damaged_transfer_is_refused(tmp_path: Path, archive: tuple[bytes, str]) -> None:
    data, sha256 = archive
    replies = send(tmp_path, b"x" + data[1:], sha256, len(data))
    assert replies[-1]["error"] == "damaged"
    assert not list((tmp_path / ".anygpu" / "agent").iterdir())
