"""The files in deploy/ use commands and options that exist, and images leave out what they do not need."""

import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from anygpu.cli.admin.worker import worker_command
from anygpu.cli.root import load_command

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
FILES = sorted(path for path in DEPLOY.rglob("*") if path.is_file())
DOCKERFILES = [path for path in FILES if path.name == "Dockerfile"]


def used_commands(path: Path) -> set[str]:
    """Return the words after `anygpu` in commands: of a shell, and in lists of JSON."""
    text = path.read_text()
    return {*re.findall(r'"anygpu", "([a-z-]+)"', text), *re.findall(r"exec anygpu ([a-z-]+)", text)}


def test_every_command_exists() -> None:
    used = {name for path in FILES for name in used_commands(path)}
    assert used == {"up", "worker"}
    assert [name for name in used if load_command(name) is None] == []


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: str(path.relative_to(DEPLOY)))
def test_images_leave_out_what_git_and_builds_leave_in_the_folder(path: Path) -> None:
    ignored = path.with_name("Dockerfile.dockerignore").read_text().split()
    assert {"**/.git", "**/.venv*", "**/node_modules"} <= set(ignored)
    assert "COPY . ." in path.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--broker", "redis://:a/b@h:6379/0"], "such as %2F for /"),
        (["--broker", "rediss://h:6379/0", "--ca-file", "/no/such/file"], "/no/such/file of --ca-file"),
    ],
)
def test_a_worker_refuses_what_it_cannot_use(options: list[str], message: str) -> None:
    refused = CliRunner().invoke(worker_command, ["--cpu", *options])
    assert (refused.exit_code, message in refused.output) == (2, True), refused.output


def test_a_password_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "password").write_bytes(b"\xff\xfe\x00")
    options = ["--cpu", "--broker", "redis://h:6379/0", "--password-file", str(tmp_path / "password")]
    refused = CliRunner().invoke(worker_command, options)
    assert (refused.exit_code, "cannot be read as text" in refused.output) == (2, True), refused.output
