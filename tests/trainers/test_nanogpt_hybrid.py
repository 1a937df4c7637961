"""The code that the example of a routed nanoGPT sends: it trains, and leaves a model."""

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def test_the_code_of_the_example_trains_a_model(tmp_path: Path) -> None:
    code = (EXAMPLES / "python" / "nanogpt_train.py").read_text()
    environ = {
        **os.environ,
        "ANYGPU_DATASET": str(EXAMPLES / "nanogpt" / "sonnets.txt"),
        "ANYGPU_OUTPUT_DIR": str(tmp_path / "out"),
        "EPOCHS": "2",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environ, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "after 2 epochs" in done.stdout
    assert list((tmp_path / "out").glob("best*"))
