"""The key file of the vault."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from anygpu.store.vault.vault import DecryptionFailed, Vault


def test_keys_that_are_added_at_once_are_all_kept(tmp_path: Path) -> None:
    vaults = [Vault(tmp_path / "k") for _ in range(8)]
    sealed = vaults[0].encrypt(("me",), "text")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(Vault.add_key, vaults))
    assert len((tmp_path / "k").read_bytes().split()) == 9
    assert vaults[3].decrypt(("me",), sealed) == "text"
    assert [path.name for path in tmp_path.iterdir()] == ["k"]


def test_a_key_file_that_others_can_read_is_not_used(tmp_path: Path) -> None:
    vault, key_file = Vault(tmp_path / "k"), tmp_path / "k"
    sealed = vault.encrypt(("me",), "text")
    key_file.chmod(0o644)
    with pytest.raises(DecryptionFailed, match="chmod 600"):
        vault.decrypt(("me",), sealed)
    key_file.chmod(0o600)
    assert vault.decrypt(("me",), vault.reencrypt(sealed)) == "text"
    key_file.write_text("not a key\n")
    with pytest.raises(DecryptionFailed, match="is not a valid key"):
        vault.decrypt(("me",), sealed)
