"""Proxies, certificates and package indexes of the user's shell reach uv and pip, and nothing else of a job."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.acceptance.cli.conftest import Shell, environment, stop
from tests.acceptance.cli.package_index import PACKAGE, PASSWORD, USER, running_index, write_certificates

SCRIPT = (
    f"import os, {PACKAGE}",
    f"print('value', {PACKAGE}.VALUE)",
    "names = [n for n in os.environ if n.upper().endswith('_PROXY') or n.startswith(('PIP_', 'UV_', 'SSL_'))]",
    "print('leaked', names)",
)
INSTALLERS = {"pip": "/usr/bin:/bin", "uv": f"{Path(sys.executable).parent}:/usr/bin:/bin"}


@contextmanager
def shell_with(place: Path, installer: str, **variables: str) -> Iterator[Shell]:
    """A shell with these variables and its own server. Settings of this computer for installers are left out."""
    others = ("PIP_", "UV_", "SSL_", "REQUESTS_", "CURL_")
    kept = {
        name: value
        for name, value in environment(place).items()
        if not name.startswith(others) and not name.upper().endswith("_PROXY")
    }
    (place / "project").mkdir()
    environ = {**kept, "PATH": INSTALLERS[installer], "PIP_CONFIG_FILE": "/dev/null", "UV_NO_CONFIG": "1"}
    shell = Shell(place / "project", environ | variables)
    try:
        yield shell
    finally:
        stop(shell.environ)


@pytest.mark.parametrize("installer", INSTALLERS)
def test_requirements_come_from_an_index_with_its_own_certificate(tmp_path: Path, installer: str) -> None:
    certificates = write_certificates(tmp_path)
    with running_index(certificates.server) as (port, _):
        url = f"https://{USER}:{PASSWORD}@127.0.0.1:{port}/simple"
        trust = dict.fromkeys(("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"), str(certificates.authority))
        with shell_with(tmp_path, installer, PIP_INDEX_URL=url, UV_DEFAULT_INDEX=url, **trust) as anygpu:
            anygpu.write("t.py", *SCRIPT)
            done = anygpu("run", "--python", sys.executable, "-r", PACKAGE, "t.py")
    assert done.stdout.endswith(b"value 42\nleaked []\n")
    assert PASSWORD.encode() not in done.stdout + done.stderr


@pytest.mark.parametrize("installer", INSTALLERS)
def test_requirements_and_setup_commands_use_the_proxy(tmp_path: Path, installer: str) -> None:
    with running_index() as (port, requests):
        url, proxy = f"http://{USER}:{PASSWORD}@packages.invalid/simple", f"http://127.0.0.1:{port}"
        allow = {"PIP_TRUSTED_HOST": "packages.invalid", "UV_INSECURE_HOST": "packages.invalid"}
        with shell_with(
            tmp_path, installer, PIP_INDEX_URL=url, UV_DEFAULT_INDEX=url, http_proxy=proxy, **allow
        ) as anygpu:
            anygpu.write("t.py", *SCRIPT)
            setup = ("--setup", 'echo "by $http_proxy"', "--setup", 'echo "from $PIP_INDEX_URL"')
            done = anygpu("run", "--python", sys.executable, "-r", PACKAGE, *setup, "t.py")
    assert any(path.startswith("http://packages.invalid/simple/") for path in requests)
    assert done.stdout.endswith(b"value 42\nleaked []\n")
    assert f"by {proxy}\n".encode() in done.stdout
    assert b"from http://***@packages.invalid/simple\n" in done.stdout
    assert PASSWORD.encode() not in done.stdout + done.stderr


def test_variables_that_choose_another_environment_do_not_reach_the_installer(tmp_path: Path) -> None:
    with running_index() as (port, _):
        url = f"http://{USER}:{PASSWORD}@127.0.0.1:{port}/simple"
        elsewhere = str(tmp_path / "elsewhere")
        with shell_with(tmp_path, "pip", PIP_INDEX_URL=url, PIP_TARGET=elsewhere, PIP_USER="1") as anygpu:
            anygpu.write("t.py", *SCRIPT)
            done = anygpu("run", "--python", sys.executable, "-r", PACKAGE, "t.py")
    assert done.stdout.endswith(b"value 42\nleaked []\n")
    assert not Path(elsewhere).exists()


@pytest.mark.extended
def test_the_packages_of_the_users_python_are_captured(tmp_path: Path) -> None:
    """On this computer the job runs with that Python; elsewhere the same versions are installed."""
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "mine")], check=True, timeout=120)
    python = str(tmp_path / "mine/bin/python")
    with running_index() as (port, _):
        url = f"http://{USER}:{PASSWORD}@127.0.0.1:{port}/simple"
        pip = [python, "-m", "pip", "install", "-q", "--index-url", url, PACKAGE]
        subprocess.run(
            pip, check=True, timeout=120, env={"PATH": "/usr/bin:/bin", "PIP_CONFIG_FILE": "/dev/null"}
        )
        with shell_with(tmp_path, "pip", PIP_INDEX_URL=url, VIRTUAL_ENV=str(tmp_path / "mine")) as anygpu:
            anygpu.write("t.py", "import sys", f"import {PACKAGE}", "print(sys.prefix)")
            shown = anygpu("run", "--dry-run", "-r", "auto", "t.py").stdout.decode()
            here = anygpu("run", "-r", "auto", "t.py").stdout.decode()
            elsewhere = anygpu(
                "run", "--python", sys.executable, "-r", f"{PACKAGE}==1.0", "t.py"
            ).stdout.decode()
    assert f"- {PACKAGE}==1.0\n" in shown
    assert here == f"{tmp_path / 'mine'}\n"
    assert elsewhere.endswith("\n")
    assert "environments" in elsewhere.splitlines()[-1]
