"""SSH keys of attempts and pinned host keys."""

from pathlib import Path

import asyncssh
import pytest

from anygpu.backends.ssh.connection import SshLogin
from anygpu.backends.ssh.keys import HostKeyStore, attempt_key


def test_the_same_secret_and_name_always_give_the_same_key() -> None:
    first, again = (attempt_key(b"secret", "anygpu-1") for _ in range(2))
    assert first.public_openssh == again.public_openssh
    private = asyncssh.import_private_key(again.private_openssh)
    assert private.export_public_key().decode().split()[:2] == first.public_openssh.split()[:2]
    assert first.public_openssh.startswith("ssh-ed25519 ")
    assert first.public_openssh.endswith(" anygpu-1")


@pytest.mark.parametrize(("secret", "name"), [(b"secret", "anygpu-2"), (b"other", "anygpu-1")])
def test_another_secret_or_name_gives_another_key(secret: bytes, name: str) -> None:
    ours = attempt_key(b"secret", "anygpu-1").public_openssh.split()[1]
    assert attempt_key(secret, name).public_openssh.split()[1] != ours


def test_a_private_key_is_not_shown_by_accident() -> None:
    pair = attempt_key(b"secret", "a")
    assert "PRIVATE" not in repr(pair)
    assert "PRIVATE" not in repr(SshLogin(machine="m", host="h", private_key=pair.private_openssh))


def test_the_first_pinned_key_stays(tmp_path: Path) -> None:
    pins = HostKeyStore(tmp_path / "pins")
    assert pins.get("box") == ()
    assert pins.pin("box", "ssh-ed25519 AAAA") == ("ssh-ed25519 AAAA",)
    assert pins.pin("box", "ssh-ed25519 BBBB") == ("ssh-ed25519 AAAA",)
    assert HostKeyStore(tmp_path / "pins").get("box") == ("ssh-ed25519 AAAA",)
    pins.delete("box")
    pins.delete("box")
    assert pins.get("box") == ()


def test_a_pinned_key_stays_in_its_directory_without_temporary_files(tmp_path: Path) -> None:
    pins = HostKeyStore(tmp_path / "pins")
    pins.pin("../../[::1]-22", "ssh-ed25519 AAAA")
    assert [path.name for path in (tmp_path / "pins").iterdir()] == [".._.._[::1]-22.pub".translate(PLAIN)]


PLAIN = str.maketrans({"/": "_", "[": "_", "]": "_", ":": "_"})
