"""The Python in the documents and examples runs, against a real server."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    place = tmp_path_factory.mktemp("sdk-docs")
    environ = {key: value for key, value in os.environ.items() if not key.startswith("ANYGPU_")}
    environ |= {
        "ANYGPU_STATE": str(place / "state"),
        "ANYGPU_CONFIG": str(place / "config.toml"),
        "ANYGPU_SERVER__PORT": "0",
    }
    yield environ
    subprocess.run([sys.executable, "-m", "anygpu.cli.main", "down"], env=environ, timeout=30, check=True)


def run(code: str, environment: dict[str, str], directory: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_python_of_the_document_runs_from_top_to_bottom(
    environment: dict[str, str], tmp_path: Path
) -> None:
    code = "\n".join(_BLOCK.findall((ROOT / "docs" / "sdk.md").read_text()))
    printed = run(code, environment, tmp_path)
    assert "Backend: local  Progress: 100.0%  Cost so far: $0.00" in printed
    assert printed.endswith("completed\n")


def test_the_async_example_runs(environment: dict[str, str], tmp_path: Path) -> None:
    path = ROOT / "examples" / "python" / "monitor.py"
    printed = run(f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')", environment, tmp_path)
    assert "Backend: local" in printed
    assert "Epoch 5/5" in printed
    assert printed.endswith("ended as completed\n")
