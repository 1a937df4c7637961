"""What goes wrong on boxes of one's own, seen from the server: each reason with its step and what to do."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.machines.cloud import Server

from anygpu.backends.ssh.keys import attempt_key
from anygpu.testing.servers.ssh_host import BEST_SERVER, SshTestHost, open_ssh_host

pytestmark = pytest.mark.timeout(300)


@asynccontextmanager
async def configured(
    server: Server, name: str, box: SshTestHost, key: str, **options: Any
) -> AsyncIterator[str]:
    """The box as a backend, and a job that may run there alone."""
    body = {
        "name": name,
        "kind": "ssh",
        "options": {"host": f"{box.user}@127.0.0.1:{box.port}", **options},
        "credentials": {"private_key": key},
    }
    await asyncio.to_thread(server.ask, "POST", "backends", body)
    where = {"allowed": [name]}
    yield await asyncio.to_thread(server.submit, code="print('ran')", python=sys.executable, placement=where)
    await asyncio.to_thread(server.anygpu, "backend", "rm", name, "--force")


async def told(server: Server, name: str, job_id: str) -> list[str]:
    """What a person reads: why the job waits, and what the check of the backend says."""

    def has_reason(job: dict[str, Any]) -> bool:
        return (
            bool(job["reason"]) and "has not answered" not in job["reason"] and "opened" not in job["reason"]
        )

    await asyncio.to_thread(server.until, job_id, has_reason, 90)
    shown = await asyncio.to_thread(server.anygpu, "show", job_id)
    checked = await asyncio.to_thread(server.anygpu, "backend", "check", name, code=1)
    await asyncio.to_thread(server.ask, "POST", f"training/{job_id}/cancel", {})
    await asyncio.to_thread(server.wait, job_id, "cancelled", within_s=90)
    return [shown, checked]


async def test_a_wrong_key_is_told_with_where_it_belongs(server: Server, tmp_path: Path) -> None:
    wrong = attempt_key(b"somebody else's", "person").private_openssh
    async with (
        open_ssh_host(BEST_SERVER, tmp_path / "box") as box,
        configured(server, "locked", box, wrong) as job_id,
    ):
        for text in await told(server, "locked", job_id):
            assert "refused the SSH login as" in text
            assert "~/.ssh/authorized_keys" in text


async def test_another_host_key_than_the_known_one_is_told_and_nothing_is_sent(
    server: Server, tmp_path: Path
) -> None:
    known = attempt_key(b"a box's own", "before it was reinstalled").public_openssh
    async with (
        open_ssh_host(BEST_SERVER, tmp_path / "box") as box,
        configured(server, "changed", box, box.key.private_openssh, host_keys=[known]) as job_id,
    ):
        for text in await told(server, "changed", job_id):
            assert "has the SSH host key ssh-ed25519 SHA256:" in text
            assert "If the machine was reinstalled, remove the host from anygpu and add it again" in text
        assert not (box.home / ".anygpu").exists()


async def test_a_box_without_python_is_told_how_to_get_one(server: Server, tmp_path: Path) -> None:
    async with (
        open_ssh_host(BEST_SERVER, tmp_path / "box") as box,
        configured(server, "bare", box, box.key.private_openssh, python="python-that-is-not-there") as job_id,
    ):
        for text in await told(server, "bare", job_id):
            assert "Python 3.9 or newer is needed, found none" in text
            assert "apt install python3" in text
