from pathlib import Path

import pytest

from anygpu.cli.jobs.plan import _code_files
from anygpu.plan.analyse.job import MAX_FILES
from anygpu.spec.jobspec import JobSpec


@pytest.fixture
def spec(tmp_path: Path) -> JobSpec:
    (tmp_path / "train.py").write_text("import models.net\n")
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "net.py").write_text("width = 8\n")
    return JobSpec(script="train.py")


def test_symbolic_links_are_not_followed(tmp_path: Path, spec: JobSpec) -> None:
    outside = tmp_path.parent / f"{tmp_path.name}-secret.yaml"
    outside.write_text("password: 1\n")
    (tmp_path / "config.yaml").symlink_to(outside)
    (tmp_path / "again").symlink_to(tmp_path)
    assert set(_code_files(spec, tmp_path)) == {"train.py", "models/net.py"}


def test_a_virtual_environment_does_not_displace_code_files(tmp_path: Path, spec: JobSpec) -> None:
    for number in range(MAX_FILES + 10):
        module = tmp_path / ".venv" / "lib" / f"m{number}.py"
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text("x = 1\n")
    assert set(_code_files(spec, tmp_path)) == {"train.py", "models/net.py"}


def test_a_missing_script_gives_no_files(tmp_path: Path, spec: JobSpec) -> None:
    assert _code_files(JobSpec(script="other.py"), tmp_path) == {}
