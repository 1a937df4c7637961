"""Key rotation."""

from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from tests.contracts.store.vault.example_profiles import CREDENTIALS, put

from anygpu.store.sql.engine.database import Database
from anygpu.store.vault.profiles import Profiles
from anygpu.store.vault.rotation import RotationResult, rotate_keys
from anygpu.store.vault.secrets import Secrets
from anygpu.store.vault.vault import DecryptionFailed, Vault
from anygpu.testing.samples.jobs import LAB


async def test_a_new_first_key_encrypts_new_values_and_old_keys_decrypt_old_ones(
    profiles: Profiles, database: Database, tmp_path: Path
) -> None:
    secrets, key_file = Secrets(database, tmp_path / "secrets.key"), tmp_path / "secrets.key"
    await put(profiles, "old")
    await secrets.put(LAB, "OLD", "v", at_ms=1)
    old_key = key_file.read_bytes()
    key_file.write_bytes(Fernet.generate_key() + b"\n" + old_key)
    await put(profiles, "new")
    await secrets.put(LAB, "NEW", "w", at_ms=2)
    old, new = await profiles.get(LAB, "old"), await profiles.get(LAB, "new")
    assert profiles.credentials(old) == profiles.credentials(new) == CREDENTIALS
    assert [await secrets.get(LAB, name) for name in ("OLD", "NEW")] == ["v", "w"]
    key_file.write_bytes(old_key)  # and without the new one, what it sealed is closed
    assert profiles.credentials(old) == CREDENTIALS
    with pytest.raises(DecryptionFailed, match="backend add new --change"):
        profiles.credentials(new)


async def test_after_a_rotation_older_keys_are_no_longer_needed(
    profiles: Profiles, database: Database, tmp_path: Path
) -> None:
    secrets, key_file = Secrets(database, tmp_path / "secrets.key"), tmp_path / "secrets.key"
    await put(profiles)
    await put(profiles, "ambient", credentials={})
    await secrets.put(LAB, "K", "v", at_ms=1)
    before = await profiles.get(LAB, "cloud")
    assert await rotate_keys(database, Vault(key_file), new_key=True) == RotationResult(reencrypted=2)
    newest, oldest = key_file.read_bytes().split()
    key_file.write_bytes(newest)
    after = await profiles.get(LAB, "cloud")
    assert after == before  # nobody need open the backend anew
    assert profiles.credentials(after) == CREDENTIALS
    assert await secrets.get(LAB, "K") == "v"
    key_file.write_bytes(Fernet.generate_key())
    assert await rotate_keys(database, Vault(key_file), new_key=False) == RotationResult(failed=2)
    key_file.write_bytes(oldest + b"\n" + newest)
    assert await rotate_keys(database, Vault(key_file), new_key=False) == RotationResult(reencrypted=2)
