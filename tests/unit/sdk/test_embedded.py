import json
import os
from pathlib import Path

import pytest

from anygpu import settings
from anygpu.sdk import embedded


def announce(state: Path, pid: int) -> None:
    (state / "token").write_text("secret\n")
    (state / "server.json").write_text(json.dumps({"url": "http://127.0.0.1:9", "pid": pid}))


def test_without_an_address_file_no_server_runs_or_crashed(tmp_path: Path) -> None:
    assert embedded.find_running(tmp_path) is None
    assert not embedded.has_crashed(tmp_path)


def test_a_reused_process_id_is_not_our_server(tmp_path: Path) -> None:
    announce(tmp_path, os.getpid())
    assert embedded.find_running(tmp_path) is None
    assert embedded.has_crashed(tmp_path)


def test_the_state_directory_comes_from_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    environments = [
        {"HOME": str(tmp_path)},
        {"HOME": str(tmp_path), "XDG_DATA_HOME": str(tmp_path / "data")},
        {"HOME": str(tmp_path), "ANYGPU_STATE": str(tmp_path / "chosen")},
        {"HOME": str(tmp_path), "ANYGPU_CONFIG": str(file)},
    ]
    file.write_text(f'state = "{tmp_path / "filed"}"\n')
    for environ in environments:
        assert embedded.state_dir(environ) == settings.load(environ=environ).state


def test_an_unusable_state_directory_is_an_error_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(
        settings.InvalidSettings, match=r"file cannot be used: file exists\. Set the variable ANYGPU_STATE"
    ):
        embedded.create_state_dir(tmp_path / "file")
    with pytest.raises(settings.InvalidSettings, match=r"not a directory\. Set the variable ANYGPU_STATE"):
        embedded.ensure_running(tmp_path / "file" / "state")
