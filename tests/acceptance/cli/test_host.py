"""A box of one's own, from `host add` to a job that runs there behind a reverse tunnel."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.cli.conftest import Shell

from anygpu.backends.ssh.keys import attempt_key
from anygpu.testing.servers.ssh_host import BEST_SERVER, SshTestHost, open_ssh_host

SCRIPT = ("import anygpu, os, pathlib", "anygpu.log(loss=0.5)", "print('ran in', os.environ['HOME'])")


@pytest.fixture
async def box(tmp_path: Path) -> AsyncIterator[SshTestHost]:
    async with open_ssh_host(BEST_SERVER, tmp_path / "box") as made:
        (tmp_path / "id").write_text(made.key.private_openssh)
        (tmp_path / "id").chmod(0o600)
        yield made


async def said(anygpu: Shell, *words: str, code: int = 0) -> str:
    done = await asyncio.to_thread(anygpu, *words, code=code)
    return (done.stdout + done.stderr).decode()


async def test_a_host_is_added_used_and_removed(anygpu: Shell, box: SshTestHost, tmp_path: Path) -> None:
    where, key = f"{box.user}@127.0.0.1:{box.port}", str(tmp_path / "id")
    added = await said(anygpu, "host", "add", where, "--name", "lab", "-i", key, "--yes", "--price", "0.25")
    assert "The host key of 127.0.0.1 is ssh-ed25519 SHA256:" in added
    assert "lab: no GPU, " in added
    assert "no GPU: nvidia-smi is not installed. If the host has an NVIDIA GPU" in added
    assert "Added host lab. Run a job there with `anygpu run --on lab train.py`." in added
    assert f"lab   {where}  open   $0.2500/h" in await said(anygpu, "host", "ls")
    anygpu.write("train.py", *SCRIPT)
    assert f"ran in {box.home}" in await said(anygpu, "run", "--on", "lab", "train.py")
    job: dict[str, Any] = await asyncio.to_thread(anygpu.json, "show", "last")
    assert job["attempts"][-1]["backend"] == "lab"
    assert "ok    lab  lab: no GPU, " in await said(anygpu, "host", "check", "lab")
    assert "Removed host lab." in await said(anygpu, "host", "rm", "lab")
    assert "No hosts." in await said(anygpu, "host", "ls")


async def test_an_unusable_host_is_not_added(anygpu: Shell, box: SshTestHost, tmp_path: Path) -> None:
    where = f"{box.user}@127.0.0.1:{box.port}"
    (tmp_path / "other").write_text(attempt_key(b"a stranger's", "id").private_openssh)
    refused = await said(anygpu, "host", "add", where, "-i", str(tmp_path / "other"), "-y", code=1)
    assert "refused the SSH login" in refused
    assert "authorized_keys" in refused
    doubted = await said(anygpu, "host", "add", where, "-i", str(tmp_path / "id"), code=2)
    assert "The host was not added. Compare the key" in doubted
    nowhere = await said(anygpu, "host", "add", "someone@127.0.0.1:1", "-y", code=75)
    assert "does not answer over SSH" in nowhere
    assert "is not the address of a host" in await said(anygpu, "host", "add", "some one@box", "-y", code=2)
    assert "No hosts." in await said(anygpu, "host", "ls")


@pytest.mark.extended
async def test_training_on_a_host_continues_while_the_server_is_down(
    alone: Shell, box: SshTestHost, tmp_path: Path
) -> None:
    where = f"{box.user}@127.0.0.1:{box.port}"
    await said(alone, "host", "add", where, "--name", "lab", "-i", str(tmp_path / "id"), "--yes")
    alone.write("train.py", "import time", "for n in range(1, 41):", "    print('step', n); time.sleep(0.1)")
    job = (await said(alone, "run", "--detach", "--on", "lab", "train.py")).split()[0]
    await until_printed(alone, job, "step 3")
    os.kill(alone.server_pid(), signal.SIGKILL)
    await asyncio.sleep(1)
    await said(alone, "up", "-d")
    assert "step 40" in await said(alone, "logs", "--follow", job)
    shown: dict[str, Any] = await asyncio.to_thread(alone.json, "show", job)
    lines = (await said(alone, "logs", job)).splitlines()
    assert (len(shown["attempts"]), lines) == (1, [f"step {n}" for n in range(1, 41)])


async def until_printed(anygpu: Shell, job: str, words: str) -> None:
    async with asyncio.timeout(30):
        while words not in await said(anygpu, "logs", job):
            await asyncio.sleep(0.1)
