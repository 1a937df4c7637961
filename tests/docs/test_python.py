"""The Python in the documents and examples runs, against a real server."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.docs.pages import ROOT, blocks
from tests.docs.places import PLACES


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
    code = "\n".join(code for _, code in blocks(ROOT / "docs" / "reference" / "sdk.md", "python"))
    printed = run(code, environment, tmp_path)
    assert "Backend: local  Progress: 100.0%  Cost so far: $0.00" in printed
    assert printed.endswith("completed\n")


def test_the_async_example_runs(environment: dict[str, str], tmp_path: Path) -> None:
    path = ROOT / "examples" / "python" / "monitor.py"
    printed = run(f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')", environment, tmp_path)
    assert "Backend: local" in printed
    assert "Epoch 5/5" in printed
    assert printed.endswith("ended as completed\n")


@pytest.mark.parametrize(
    ("page", "says"),
    [
        ("docs/explanation/analysis.md", "epochs 3 high command line"),
        ("docs/reference/catalog.md", "Standard_NC24ads_A100_v4 "),
        ("docs/how-to/datasets.md", "price"),
    ],
)
def test_the_python_of_a_page_runs_where_its_commands_do(
    page: str, says: str, environment: dict[str, str], tmp_path: Path
) -> None:
    [(_, code)] = blocks(ROOT / page, "python")
    assert says in run(code, environment, PLACES[page](tmp_path))
