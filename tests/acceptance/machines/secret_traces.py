"""A job with secrets, and where other users of its machine or its engine could read them."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import yaml
from tests.acceptance.machines.cloud import Server
from tests.walk import content_of, paths_below

VALUE, SECRET = "marker-of-a-variable-7f3a", "marker-of-a-secret-91c2"
OTHERS_READ, OTHERS_ENTER = 0o044, 0o011
CODE = """
import os, time
print("got", len(os.environ["PLAIN"]), len(os.environ["HIDDEN"]), flush=True)
time.sleep(1000)
"""


def job_with_secrets(server: Server, backend: str) -> dict[str, Any]:
    """Store a secret, and return the spec of a job that gets it, and a variable with another value."""
    server.ask("PUT", "secrets/MARKED", {"value": SECRET})
    return {
        "code": CODE,
        "env": {"PLAIN": VALUE},
        "secrets": {"HIDDEN": "MARKED"},
        "placement": {"allowed": [backend]},
    }


def submit_with_secrets(server: Server, backend: str) -> str:
    """Submit the job, and wait until its script runs."""
    job = server.submit(**job_with_secrets(server, backend))
    server.until(job, lambda each: each["status"] == "running", within_s=60)
    expected = f"got {len(VALUE)} {len(SECRET)}"
    server.until(job, lambda _: expected in server.anygpu("logs", job), within_s=60)
    return job


def native_request(server: Server, backend: str, folder: Path, *options: str) -> str:
    """Return what `anygpu plan --native` prints for the job."""
    (folder / "secrets.yaml").write_text(yaml.safe_dump(job_with_secrets(server, backend)))
    return server.anygpu("plan", "--native", "--on", backend, *options, "secrets.yaml", cwd=folder)


def agent_secrets(directory: Path) -> list[str]:
    """Return the values that the job and its agent must keep: markers, the ticket, and the agent's token."""
    ticket = json.loads((directory / "ticket.json").read_text())["ticket"]
    token = json.loads((directory / "work.json").read_text())["token"]
    assert ticket
    assert token
    return [VALUE, SECRET, ticket, token]


def command_lines() -> str:
    """Return the command lines of all processes, which every user of the machine can read."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue
    return "\n".join(lines)


def find_words(text: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word in text]


def readable_files(folder: Path, words: Sequence[str]) -> list[Path]:
    """Return the files below `folder` that have one of the words and that other users could read."""
    return [
        path
        for path in paths_below(folder)
        if path.is_file()
        and is_readable(path, folder)
        and find_words(content_of(path).decode("utf-8", "replace"), words)
    ]


def is_readable(path: Path, folder: Path) -> bool:
    """Return whether other users could read the file, if they may enter `folder`."""
    parents = [each for each in path.parents if each.is_relative_to(folder) and each != folder]
    try:
        can_enter = all(each.stat().st_mode & OTHERS_ENTER for each in parents)
        return can_enter and bool(path.stat().st_mode & OTHERS_READ)
    except FileNotFoundError:
        return False
