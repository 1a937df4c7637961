"""The server refuses keys that are missing, damaged, replaced or open to other users."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.acceptance.server.real_server import Server, refused_start

from anygpu.store.vault.key_file import new_signing_key, new_vault_key

KEYS = ("signing.key", "secrets.key")
NEW_KEY = {"signing.key": new_signing_key, "secrets.key": new_vault_key}


@pytest.fixture
def stopped(new_server: Callable[..., Server]) -> Server:
    """A server that has run once."""
    server = new_server()
    assert server.ask("PUT", "/api/v1/secrets/HF_TOKEN", {"value": "hush"}).status == 204
    server.stop()
    return server


def refusal(server: Server) -> str:
    """Start the server, which must refuse with one line that says what is wrong."""
    code, message = refused_start(server.state)
    assert (code, message.count("\n")) == (1, 1), message
    assert "Traceback" not in message
    return message


@pytest.mark.parametrize("name", KEYS)
def test_an_empty_key_is_refused(stopped: Server, name: str) -> None:
    (stopped.state / name).write_bytes(b"")
    message = refusal(stopped)
    assert str(stopped.state / name) in message
    assert "anygpu up --accept-new-keys" in message


def test_a_short_signing_key_is_refused_also_at_the_first_start(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "signing.key").write_bytes(b"short")
    (tmp_path / "state" / "signing.key").chmod(0o600)
    code, message = refused_start(tmp_path / "state")
    assert (code, "has 5 bytes" in message) == (1, True)


@pytest.mark.parametrize("name", KEYS)
def test_a_deleted_key_is_refused_and_not_made_again(stopped: Server, name: str) -> None:
    (stopped.state / name).unlink()
    assert "does not exist" in refusal(stopped)
    assert not (stopped.state / name).exists()


@pytest.mark.parametrize("name", KEYS)
def test_a_replaced_key_is_refused(stopped: Server, name: str) -> None:
    key = (stopped.state / name).read_bytes()
    (stopped.state / name).write_bytes(NEW_KEY[name]())
    assert "contains another key" in refusal(stopped)
    (stopped.state / name).write_bytes(key)
    stopped.start()


@pytest.mark.parametrize("name", KEYS)
def test_a_key_that_is_missing_in_a_database_of_an_older_version_is_refused(
    stopped: Server, name: str
) -> None:
    with sqlite3.connect(stopped.state / "anygpu.db") as database:
        database.execute("DELETE FROM properties")
    (stopped.state / name).unlink()
    assert "does not exist" in refusal(stopped)


@pytest.mark.parametrize("name", [*KEYS, "token"])
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_a_key_that_other_users_can_open_is_refused(stopped: Server, name: str, mode: int) -> None:
    (stopped.state / name).chmod(mode)
    assert f"chmod 600 {stopped.state / name}" in refusal(stopped)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_key_of_another_user_is_refused(stopped: Server) -> None:
    os.chown(stopped.state / "signing.key", 12345, -1)
    assert "chown 0" in refusal(stopped)


def test_an_empty_token_is_refused(stopped: Server) -> None:
    (stopped.state / "token").write_bytes(b"\n")
    assert "does not contain a token" in refusal(stopped)
    (stopped.state / "token").unlink()
    stopped.start()
    assert stopped.ask("GET", "/api/v1/whoami").json["role"] == "operator"


@pytest.mark.parametrize("name", KEYS)
def test_new_keys_are_used_once_they_are_accepted(stopped: Server, name: str) -> None:
    (stopped.state / name).unlink()
    refusal(stopped)
    stopped.start("--accept-new-keys")
    stopped.stop()
    stopped.start()
    assert stopped.ask("GET", "/api/v1/secrets").json["secrets"][0]["name"] == "HF_TOKEN"
    assert stopped.ask("PUT", "/api/v1/secrets/HF_TOKEN", {"value": "new"}).status == 204


@pytest.mark.parametrize("damage", ["delete", "empty"])
def test_a_key_that_is_lost_while_the_server_runs_is_not_made_again(
    new_server: Callable[..., Server], damage: str
) -> None:
    server = new_server()
    key_file = server.state / "secrets.key"
    key = key_file.read_bytes()
    if damage == "delete":
        key_file.unlink()
    else:
        key_file.write_bytes(b"")
    answer = server.ask("PUT", "/api/v1/secrets/HF_TOKEN", {"value": "hush"})
    assert (answer.status, answer.json["code"]) == (503, "key_unusable")
    assert str(key_file) in answer.json["detail"]
    assert damage == "empty" or not key_file.exists()
    key_file.write_bytes(key)
    key_file.chmod(0o600)
    assert server.ask("PUT", "/api/v1/secrets/HF_TOKEN", {"value": "hush"}).status == 204
    assert "Traceback" not in server.error_log


def test_after_a_rotation_the_newest_key_is_required(new_server: Callable[..., Server]) -> None:
    server = new_server()
    assert server.ask("PUT", "/api/v1/secrets/HF_TOKEN", {"value": "hush"}).status == 204
    assert server.ask("POST", "/api/v1/backends/rotate?new_key=true").status == 200
    server.stop()
    newest, oldest = (server.state / "secrets.key").read_bytes().split()
    (server.state / "secrets.key").write_bytes(oldest)
    assert "contains another key" in refusal(server)
    (server.state / "secrets.key").write_bytes(newest)
    server.start()


@pytest.mark.parametrize("options", [(), ("-d",)])
def test_anygpu_up_shows_why_the_server_does_not_start(stopped: Server, options: tuple[str, ...]) -> None:
    (stopped.state / "signing.key").write_bytes(b"")
    command = [str(Path(sys.executable).with_name("anygpu")), "up", *options]
    environment = {**os.environ, "ANYGPU_STATE": str(stopped.state), "ANYGPU_SERVER__PORT": "0"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert done.returncode != 0
    assert f"The signing key in {stopped.state / 'signing.key'} has 0 bytes" in done.stderr
    assert "Traceback" not in done.stderr
