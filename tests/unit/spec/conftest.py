"""Working directories for tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

Make = Callable[[dict[str, str]], Path]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def build(files: dict[str, str]) -> Path:
        root = tmp_path / "project"
        for name, content in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content)
        return root

    return build
