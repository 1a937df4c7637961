"""The two Python environments of a newcomer: one into which the wheel is installed, and their own."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.acceptance.cli.package_index import WHEEL, wheel

ROOT = Path(__file__).resolve().parents[3]
INSTALL_LIMIT_S = 250  # the packages come from the index that pip is configured for


def create_environments(folder: Path) -> tuple[Path, Path]:
    """Return the environment of the tool, and that of the user, which has a package the other lacks."""
    with ThreadPoolExecutor(2) as pool:
        tool = pool.submit(_create_tool_environment, folder / "tool")
        user = pool.submit(_create_user_environment, folder / "user")
        return tool.result(), user.result()


def _create_tool_environment(venv: Path) -> Path:
    wheels = venv.with_name("wheels")
    _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheels), str(ROOT))
    (built,) = wheels.glob("anygpu-*.whl")
    return _create(venv, str(built))


def _create_user_environment(venv: Path) -> Path:
    package = venv.with_name(WHEEL)
    package.write_bytes(wheel())
    return _create(venv, str(package), "scikit-learn")


def _create(venv: Path, *packages: str) -> Path:
    _run(sys.executable, "-m", "venv", "--without-pip", str(venv))
    pip = (sys.executable, "-m", "pip", "--python", str(venv / "bin" / "python"))
    _run(*pip, "install", "--quiet", "--constraint", str(ROOT / "constraints.txt"), *packages)
    return venv


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, timeout=INSTALL_LIMIT_S, check=False)
    assert done.returncode == 0, f"{' '.join(command)}:\n{(done.stdout + done.stderr).decode()}"
