"""A new provider of machines is one file of under 200 statements that touches nothing else."""

import re
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[4]
SOURCE = ROOT / "src" / "anygpu"
CLOUDS = SOURCE / "backends" / "clouds"


def counting() -> ModuleType:
    spec = spec_from_file_location("count_statements", ROOT / "scripts" / "count_statements.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("kind", ["paperspace", "runpod"])
def test_a_provider_takes_less_than_200_statements(kind: str) -> None:
    assert 50 < counting().statements(CLOUDS / f"{kind}.py") < 200


@pytest.mark.parametrize("kind", ["paperspace", "runpod"])
def test_no_other_source_file_names_the_provider(kind: str) -> None:
    """The simulator speaks their language, and is a reading of its own."""
    simulator = (SOURCE / "cloudsim", SOURCE / "cli" / "admin" / "cloud_sim.py")
    named = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if not any(path.is_relative_to(place) for place in simulator)
        and re.search(kind, path.read_text(), re.IGNORECASE)
    ]
    assert named == [f"backends/clouds/{kind}.py"]


def test_docstrings_are_not_counted(tmp_path: Path) -> None:
    source = tmp_path / "m.py"
    source.write_text('"""What."""\n\n\ndef f():\n    """Why."""\n    return 1\n')
    assert counting().statements(source) == 2
