"""Find a Chromium for tests and benchmarks of the web app, without root.

The npm package @sparticuz/chromium holds a compressed one. It is unpacked once into a cache directory outside of the
checkout. Where it does not run (another system or processor), a browser that is installed on the machine is used.
"""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from scripts.build_web import MODULES, WEB, WebBuildError, install_packages, locked, require_node

PACKAGE = MODULES / "@sparticuz" / "chromium"
UNPACK = """
import chromium, { inflate } from "@sparticuz/chromium";
await chromium.executablePath();
await inflate(process.argv[1]);
"""
INSTALLED = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)
# Chromium must not call home, and nothing but this machine can be reached.
ARGUMENTS = (
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--font-render-hinting=none",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
    "--no-default-browser-check",
    "--no-first-run",
    "--no-pings",
)


@dataclass(frozen=True)
class Chromium:
    """A Chromium program, and the environment variables that it needs on this machine."""

    program: Path
    variables: Mapping[str, str] = field(default_factory=dict)

    @property
    def arguments(self) -> list[str]:
        # The sandbox needs rights that root in a container lacks, and Chromium refuses to run as root with it.
        return [*ARGUMENTS, *(["--no-sandbox"] if os.geteuid() == 0 else [])]

    @property
    def environment(self) -> dict[str, str | float | bool]:
        return {**os.environ, **self.variables}

    def runs(self) -> bool:
        command = [str(self.program), "--version"]
        try:
            done = subprocess.run(
                command, env={**os.environ, **self.variables}, capture_output=True, timeout=60, check=False
            )
        except OSError:
            return False
        return done.returncode == 0


@cache
def find_chromium() -> Chromium | None:
    """Return the first Chromium that runs here."""
    return next((each for each in _candidates() if each.runs()), None)


def _candidates() -> Iterator[Chromium]:
    try:
        folder = _unpack()
    except WebBuildError as error:
        print(f"The Chromium of npm could not be unpacked: {error}")
    else:
        fonts = {} if Path("/etc/fonts/fonts.conf").exists() else {"FONTCONFIG_PATH": str(folder / "fonts")}
        yield Chromium(folder / "chromium", fonts)
        # Libraries that desktops have and servers may lack, such as NSS.
        yield Chromium(folder / "chromium", {**fonts, "LD_LIBRARY_PATH": str(folder / "al2023" / "lib")})
    for name in INSTALLED:
        if found := shutil.which(name):
            yield Chromium(Path(found))


def _unpack() -> Path:
    """Return the folder with the unpacked Chromium of the npm package. The first call takes some seconds."""
    node = require_node()
    with locked():
        install_packages(node, development=True)
        version = json.loads((PACKAGE / "package.json").read_text())["version"]
        folder = _cache_directory() / f"chromium-{version}"
        if folder.exists():
            return folder
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="unpack-", dir=folder.parent) as temporary:
            inside = Path(temporary) / "unpacked"
            inside.mkdir()
            command = [str(node.program), "--input-type=module", "--eval", UNPACK]
            command.append(str(PACKAGE / "bin" / "al2023.tar.br"))
            node.run("unpacking Chromium", command, variables={"TMPDIR": str(inside)})
            inside.rename(folder)
        return folder


def _cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "anygpu-development"


def axe_source() -> str:
    """Return the script of axe-core, which finds accessibility problems in a page."""
    return (WEB / "node_modules" / "axe-core" / "axe.min.js").read_text()
