"""Make the virtual environment: `python scripts/setup_venv.py .venv`.

Uses uv when it is on the PATH (seconds), else venv and pip (a minute).
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    venv = Path(sys.argv[1]).resolve()
    if sys.version_info < (3, 11):
        sys.exit(
            f"anygpu needs Python 3.11 or newer; this is {sys.version.split()[0]}. Try: make PYTHON=python3.11"
        )
    # A shim (pyenv, asdf) would be baked into the environment; sys.executable is the interpreter itself.
    if not (venv / "bin" / "python").exists():
        shutil.rmtree(venv, ignore_errors=True)
        run(sys.executable, "-m", "venv", str(venv))
    constraints = ["--constraint", str(ROOT / "constraints.txt")]
    project = ["--editable", f"{ROOT}[aws,demo,kubernetes,postgres]", "--group", f"{ROOT}/pyproject.toml:dev"]
    python = str(venv / "bin" / "python")
    # --group came with pip 25.1; a fresh Python 3.11 carries an older one.
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "pip>=25.1")
    print("installing anygpu and its tools into", venv.name, "(a minute, once)", flush=True)
    os.environ["HATCH_BUILD_NO_HOOKS"] = "true"  # `make web` builds the web app, with the Node installed here
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *constraints, *project)
    # Where PYTHONDONTWRITEBYTECODE is set, an editable install would be compiled anew at every start.
    run(python, "-m", "compileall", "-q", str(ROOT / "src"))


def run(*command: str) -> None:
    done = subprocess.run(command, check=False)
    if done.returncode:
        sys.exit(f"failed: {' '.join(command)}")


if __name__ == "__main__":
    main()
