"""anygpu installed from a clone with pip, uv tool and pipx, and used outside the repository."""

import json
import os
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scripts import build_web

pytestmark = [pytest.mark.extended, pytest.mark.timeout(2400)]

ROOT = Path(__file__).resolve().parents[3]
BIN = Path(sys.executable).parent
INSTALL_TIMEOUT_S = 600
# Some packages have no file for every platform; an index may be slow.
TOOLS = ("pip", "uv tool", "pipx")


@dataclass
class Installed:
    """A person who has installed anygpu and works in a directory of their own."""

    tool: str
    place: Path
    environ: dict[str, str]
    command: list[str]

    def run(self, *words: str, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        return self.shell([*self.command, *words], code=code)

    def shell(self, argv: list[str] | str, *, code: int | None = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            argv,
            shell=isinstance(argv, str),
            cwd=self.place / "work",
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=INSTALL_TIMEOUT_S,
            check=False,
        )
        said = f"{argv} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        assert code is None or done.returncode == code, said
        assert "Traceback" not in done.stderr, said
        return done


@pytest.fixture(scope="session")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a user gets from `git clone`, as far as the installation needs it."""
    build_web.ensure_built()  # once, and not by each tool
    directory = tmp_path_factory.mktemp("clone") / "anygpu"
    directory.mkdir()
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, directory / name)
    ignored = shutil.ignore_patterns("__pycache__", "node_modules")
    for name in ("src", "scripts", "web"):
        shutil.copytree(ROOT / name, directory / name, ignore=ignored)
    return directory


@pytest.fixture(scope="session", params=TOOLS)
def installed(
    request: pytest.FixtureRequest, clone: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    place = tmp_path_factory.mktemp(request.param.replace(" ", "-"))
    (place / "work").mkdir()
    made = install(request.param, clone, place)
    made.run("up", "-d")
    yield made
    made.run("down", code=None)


def install(tool: str, clone: Path, place: Path) -> Installed:
    """Install as README.md says. Caches of the tools are shared with this user's, so that little is downloaded."""
    environ = environment(place)
    user = Installed(tool, place, environ, [])
    if tool == "pip":
        subprocess.run([sys.executable, "-m", "venv", str(place / "venv")], check=True, timeout=120)
        user.shell([str(place / "venv/bin/pip"), "install", "-q", str(clone)])
        user.command = [str(place / "venv/bin/python"), "-m", "anygpu"]
    elif tool == "uv tool":
        user.shell(["uv", "tool", "install", "--python", sys.executable, str(clone)])
        user.command = ["anygpu"]
    else:
        user.shell(["pipx", "install", "--python", sys.executable, str(clone)])
        user.command = ["anygpu"]
    return user


def environment(place: Path) -> dict[str, str]:
    """A shell in which the tools are on the PATH, but not the command of this repository."""
    tools = place / "tools"
    tools.mkdir()
    for name in ("uv", "pipx"):
        (tools / name).symlink_to(BIN / name)
    hidden = ("ANYGPU_", "VIRTUAL_ENV", "PYTHONPATH", "COV_")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    home = Path.home()
    return (
        kept
        | {
            "PATH": f"{place / 'bin'}:{tools}:/usr/local/bin:/usr/bin:/bin",
            "HOME": str(place),
            "PIP_CONFIG_FILE": os.environ.get("PIP_CONFIG_FILE")
            or _first_existing(home, ".config/pip/pip.conf"),
            "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR") or str(home / ".cache/pip"),
            "UV_CACHE_DIR": os.environ.get("UV_CACHE_DIR") or str(home / ".cache/uv"),
            "UV_TOOL_DIR": str(place / "uv-tools"),
            "UV_TOOL_BIN_DIR": str(place / "bin"),
            "PIPX_HOME": str(place / "pipx"),
            "PIPX_BIN_DIR": str(place / "bin"),
            "ANYGPU_STATE": str(place / "state"),
            "ANYGPU_CONFIG": str(place / "config.toml"),
            "ANYGPU_SERVER__PORT": "0",
            "COLUMNS": "200",
        }
        | _index_settings(home)
    )


def _first_existing(home: Path, name: str) -> str:
    return str(home / name) if (home / name).exists() else "/etc/pip.conf"


def _index_settings(home: Path) -> dict[str, str]:
    path = home / ".config/uv/uv.toml"
    return {"UV_CONFIG_FILE": str(path)} if path.exists() else {}


def test_a_script_runs_outside_the_repository(installed: Installed) -> None:
    (installed.place / "work/hello.py").write_text(
        "import sys\nprint('hello from', sys.version_info.major)\n"
    )
    done = installed.run("run", "hello.py")
    assert done.stdout == "hello from 3\n"
    where = installed.run("version", "--json")
    assert str(ROOT) not in where.stdout


def test_the_web_app_is_part_of_the_installation(installed: Installed) -> None:
    url = json.loads((installed.place / "state/server.json").read_text())["url"]
    with urllib.request.urlopen(f"{url}/jobs", timeout=30) as answer:
        page = answer.read().decode()
    script = re.findall(r'src="(/assets/[^"]+)"', page)[0]
    with urllib.request.urlopen(f"{url}{script}", timeout=30) as answer:
        assert answer.headers["Content-Type"].startswith("text/javascript")


def test_the_checks_for_a_first_job_pass(installed: Installed) -> None:
    told = json.loads(installed.run("doctor", "--json").stdout)
    assert told["problems"] == 0
    assert f"installed with {installed.tool}" in told["findings"][0]["said"]


def test_hints_name_commands_that_work_here(installed: Installed) -> None:
    done = installed.run("run", "missing.py", code=66)
    hint = installed.run("logs", "no-such-job", code=66).stderr
    name = "anygpu" if installed.command == ["anygpu"] else f"{installed.command[0]} -m anygpu"
    assert f"`{name} ls`" in hint
    assert "make " not in done.stderr + hint


def test_a_missing_extra_is_named_with_the_command_that_installs_it(installed: Installed) -> None:
    refused = installed.run("backend", "add", "aws", "--kind", "ec2", code=1)
    assert "needs boto3, which is not installed" in refused.stderr
    command = refused.stderr.partition("Install it with `")[2].partition("`")[0]
    first = {"pip": installed.command[0], "uv tool": "uv tool install", "pipx": "pipx install"}[
        installed.tool
    ]
    assert command.startswith(first)
    assert backends(installed) == ["local"]
    installed.shell(command)
    added = installed.run("backend", "add", "aws", "--kind", "ec2", "--set", "regions=us-east-1")
    assert "Added backend aws" in added.stdout
    installed.run("backend", "rm", "aws")


def backends(installed: Installed) -> list[str]:
    told: dict[str, Any] = json.loads(installed.run("backend", "ls", "--json").stdout)
    return [each["name"] for each in told["backends"]]
