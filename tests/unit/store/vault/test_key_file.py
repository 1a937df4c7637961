"""Key files are private, complete, and never replaced by accident."""

import base64
from pathlib import Path

import pytest

from anygpu.store.vault.key_file import (
    KeyUnusable,
    create_private_file,
    fingerprint,
    new_signing_key,
    new_vault_key,
    read_private_file,
    read_signing_key,
    read_vault_keys,
)


def test_a_new_file_is_readable_by_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "key"
    create_private_file(path, b"secret")
    assert path.stat().st_mode & 0o777 == 0o600
    assert read_private_file(path) == b"secret"


def test_the_first_process_that_creates_a_key_wins(tmp_path: Path) -> None:
    create_private_file(tmp_path / "key", b"first")
    create_private_file(tmp_path / "key", b"second")
    assert read_private_file(tmp_path / "key") == b"first"


def test_a_file_that_others_can_read_is_refused_with_the_command_that_repairs_it(tmp_path: Path) -> None:
    path = tmp_path / "key"
    create_private_file(path, b"secret")
    path.chmod(0o640)
    with pytest.raises(KeyUnusable, match="0640") as refused:
        read_private_file(path)
    assert f"chmod 600 {path}" in (refused.value.hint or "")


def test_a_missing_file_and_a_directory_are_named(tmp_path: Path) -> None:
    with pytest.raises(KeyUnusable, match="does not exist"):
        read_private_file(tmp_path / "none")
    with pytest.raises(KeyUnusable, match="not a regular file"):
        read_private_file(tmp_path)


def test_a_signing_key_that_is_too_short_is_refused(tmp_path: Path) -> None:
    create_private_file(tmp_path / "good", new_signing_key())
    assert len(read_signing_key(tmp_path / "good")) == 32
    create_private_file(tmp_path / "short", b"x" * 31)
    with pytest.raises(KeyUnusable, match="has 31 bytes"):
        read_signing_key(tmp_path / "short")


def test_the_vault_may_have_several_keys_newest_first(tmp_path: Path) -> None:
    newest, older = new_vault_key(), new_vault_key()
    create_private_file(tmp_path / "keys", newest + older)
    assert read_vault_keys(tmp_path / "keys") == [newest.strip(), older.strip()]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (b"no key", "Line 1"),
        (base64.urlsafe_b64encode(b"k" * 32) + b"\nc2hvcnQ=", "Line 2"),
    ],
)
def test_a_damaged_vault_key_is_named_by_its_line(tmp_path: Path, content: bytes, message: str) -> None:
    create_private_file(tmp_path / "keys", content)
    with pytest.raises(KeyUnusable, match=message):
        read_vault_keys(tmp_path / "keys")


def test_a_fingerprint_identifies_a_key_without_revealing_it() -> None:
    key, other = new_vault_key(), new_vault_key()
    assert fingerprint(key) == fingerprint(key) != fingerprint(other)
    assert key.decode().strip() not in fingerprint(key)
