"""The key file of the vault."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from anygpu.store.vault.key_file import KeyUnusable, create_private_file, new_vault_key
from anygpu.store.vault.vault import Vault


@pytest.fixture
def key_file(tmp_path: Path) -> Path:
    create_private_file(tmp_path / "k", new_vault_key())
    return tmp_path / "k"


def test_keys_that_are_added_at_once_are_all_kept(key_file: Path, tmp_path: Path) -> None:
    vaults = [Vault(key_file) for _ in range(8)]
    sealed = vaults[0].encrypt(("me",), "text")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(Vault.add_key, vaults))
    assert len((tmp_path / "k").read_bytes().split()) == 9
    assert vaults[3].decrypt(("me",), sealed) == "text"
    assert [path.name for path in tmp_path.iterdir()] == ["k"]


def test_a_key_file_that_others_can_read_is_not_used(key_file: Path) -> None:
    vault = Vault(key_file)
    sealed = vault.encrypt(("me",), "text")
    key_file.chmod(0o644)
    with pytest.raises(KeyUnusable, match="chmod 600"):
        vault.decrypt(("me",), sealed)
    key_file.chmod(0o600)
    assert vault.decrypt(("me",), vault.reencrypt(sealed)) == "text"


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "is empty"),
        (b"\n", "is empty"),
        (b"not a key\n", "Line 1"),
        (b"A" * 43 + b"=\nc2hvcnQ=", "Line 2"),
    ],
)
def test_a_damaged_key_file_is_not_used(key_file: Path, content: bytes, problem: str) -> None:
    vault = Vault(key_file)
    sealed = vault.encrypt(("me",), "text")
    key_file.write_bytes(content)
    for use in (lambda: vault.encrypt(("me",), "x"), lambda: vault.decrypt(("me",), sealed), vault.add_key):
        with pytest.raises(KeyUnusable, match=problem):
            use()
    assert key_file.read_bytes() == content


def test_a_lost_key_file_is_not_created_again(key_file: Path) -> None:
    vault = Vault(key_file)
    sealed = vault.encrypt(("me",), "text")
    key = key_file.read_bytes()
    key_file.unlink()
    with pytest.raises(KeyUnusable, match="does not exist"):
        vault.encrypt(("me",), "other")
    assert not key_file.exists()
    create_private_file(key_file, key)
    assert vault.decrypt(("me",), sealed) == "text"
