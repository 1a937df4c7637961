"""A store of profiles on every database."""

from pathlib import Path

import pytest

from anygpu.store.sql.database import Database
from anygpu.store.vault.profiles import Profiles


@pytest.fixture
def profiles(database: Database, tmp_path: Path) -> Profiles:
    return Profiles(database, tmp_path / "secrets.key")
