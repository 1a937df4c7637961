"""A store of profiles on every database."""

from pathlib import Path

import pytest

from anygpu.store.sql.engine.database import Database
from anygpu.store.vault.key_file import create_private_file, new_vault_key
from anygpu.store.vault.profiles import Profiles


@pytest.fixture(autouse=True)
def key_file(tmp_path: Path) -> Path:
    """The key file that the server creates when it starts for the first time."""
    create_private_file(tmp_path / "secrets.key", new_vault_key())
    return tmp_path / "secrets.key"


@pytest.fixture
def profiles(database: Database, tmp_path: Path) -> Profiles:
    return Profiles(database, tmp_path / "secrets.key")
