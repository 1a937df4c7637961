from pathlib import Path
from typing import Any

from anygpu.cli.admin.machine import ssh_arguments


def login(**parts: Any) -> dict[str, Any]:
    return {"host": "10.0.0.7", "port": 22, "user": "ubuntu", "host_keys": [], "private_key": "", **parts}


def test_a_known_host_key_is_required(tmp_path: Path) -> None:
    arguments = ssh_arguments(login(host_keys=["ssh-ed25519 AAAA"], port=2222), tmp_path)
    assert "StrictHostKeyChecking=yes" in arguments
    assert arguments[-3:] == ["-p", "2222", "ubuntu@10.0.0.7"]
    assert (tmp_path / "known_hosts").read_text() == "[10.0.0.7]:2222 ssh-ed25519 AAAA\n"


def test_an_unknown_host_key_is_accepted_once(tmp_path: Path) -> None:
    assert "StrictHostKeyChecking=accept-new" in ssh_arguments(login(), tmp_path)


def test_the_private_key_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    arguments = ssh_arguments(login(private_key="secret"), tmp_path)
    assert f"IdentityFile={tmp_path / 'key'}" in arguments
    assert "IdentitiesOnly=yes" in arguments
    assert (tmp_path / "key").stat().st_mode & 0o077 == 0
