"""Peers are installed in environments of their own, under `.bench/`, the first time they are needed."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
HOME = ROOT / ".bench"


def python_with(name: str, *requirements: str) -> Path:
    """The interpreter of an environment that has `requirements`; made once."""
    venv = HOME / name
    python = venv / "bin" / "python"
    mark = venv / ".installed"
    if not mark.exists():
        print(f"installing {', '.join(requirements)} for comparison (once)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(venv)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *requirements], check=True)
        mark.touch()
    return python
