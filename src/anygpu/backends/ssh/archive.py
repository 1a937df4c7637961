"""The agent as bytes, built once in a process and shared by every link."""

import asyncio
import tempfile
import threading
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from anygpu.agent.build import build_pyz


@dataclass(frozen=True, slots=True)
class Archive:
    data: bytes
    sha256: str


@cache
def built() -> Archive:
    with tempfile.TemporaryDirectory() as directory:
        target = Path(directory) / "anygpu-agent.pyz"
        sha256 = build_pyz(target)
        return Archive(target.read_bytes(), sha256)


_building = threading.Lock()


async def agent_archive() -> Archive:
    """A thousand links that begin at once build it once, and not in the loop."""
    return built() if built.cache_info().currsize else await asyncio.to_thread(_built_by_one)


def _built_by_one() -> Archive:
    with _building:
        return built()


@cache
def doorman() -> bytes:
    """The program that lets the agent in; run by the machine's own Python before anything of ours is there."""
    import anygpu.agent.host

    return Path(anygpu.agent.host.__file__).with_name("bootstrap.py").read_bytes()
