"""The Dockerfile and the compose file of GPU workers."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from anygpu.cli.admin.worker import worker_command

FOLDER = Path(__file__).resolve().parents[3] / "deploy" / "celery"
HADOLINT = Path(sys.executable).with_name("hadolint")


@pytest.fixture
def compose() -> dict[str, dict[str, dict[str, object]]]:
    loaded: dict[str, dict[str, dict[str, object]]] = yaml.safe_load((FOLDER / "compose.yaml").read_text())
    return loaded


def test_the_dockerfile_has_no_finding() -> None:
    program = str(HADOLINT) if HADOLINT.exists() else shutil.which("hadolint")
    assert program, "hadolint is not installed; `make` installs it with the other tools"
    done = subprocess.run(
        [program, str(FOLDER / "Dockerfile")], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_the_command_of_the_image_exists() -> None:
    text = (FOLDER / "Dockerfile").read_text()
    words = re.findall(r"^(?:ENTRYPOINT|CMD) \[(.*)\]$", text, re.MULTILINE)
    entry, default = ([word.strip(' "') for word in line.split(",")] for line in words)
    assert entry == ["anygpu", "worker"]
    options = {name for parameter in worker_command.params for name in parameter.opts}
    assert {word for word in default if word.startswith("--")} <= options
    refused = CliRunner().invoke(worker_command, ["--drain", default[-1], "--broker", "x://y", "--cpu"])
    assert "a broker of the kind 'x' is not supported" in str(refused.output)


def test_the_services_have_what_they_need(compose: dict[str, dict[str, dict[str, object]]]) -> None:
    services = compose["services"]
    assert set(services) == {"broker", "worker", "flower"}
    assert set(compose["volumes"]) == {"broker", "state"}
    for name, service in services.items():
        assert {"image"} <= service.keys(), name
        assert service.keys() <= SERVICE_KEYS, name
        for volume in service.get("volumes", []):  # type: ignore[attr-defined]
            assert str(volume).split(":")[0] in compose["volumes"]
    assert services["worker"]["build"] == {"context": "../..", "dockerfile": "deploy/celery/Dockerfile"}
    assert services["flower"]["ports"] == ["127.0.0.1:5555:5555"]
    assert "FLOWER_BASIC_AUTH" in services["flower"]["environment"]  # type: ignore[operator]


def test_workers_on_further_machines_get_names_of_their_own(
    compose: dict[str, dict[str, dict[str, object]]],
) -> None:
    text = (FOLDER / "compose.yaml").read_text()
    commands = re.findall(r"^# +(.*docker compose .*--no-deps worker)$", text, re.MULTILINE)
    assert commands
    assert all("WORKER_HOST=" in command and "BROKER_HOST=" in command for command in commands)
    assert str(compose["services"]["worker"]["hostname"]).startswith("${WORKER_HOST")
    documented = set(re.findall(r"\b([A-Z]+_[A-Z]+)\b", text.partition("name:")[0]))
    used = set(re.findall(r"\$\{([A-Z]+_[A-Z]+)", text))
    assert used == documented


def test_the_password_has_no_default(compose: dict[str, dict[str, dict[str, object]]]) -> None:
    text = (FOLDER / "compose.yaml").read_text()
    used = re.findall(r"\$\{BROKER_PASSWORD[^}]*\}", text)
    assert used
    assert all(each.startswith(("${BROKER_PASSWORD:?", "${BROKER_PASSWORD}")) for each in used)


def test_the_broker_reads_its_password_from_its_environment(
    compose: dict[str, dict[str, dict[str, object]]], tmp_path: Path
) -> None:
    broker = compose["services"]["broker"]
    assert broker["environment"] == {"BROKER_PASSWORD": "${BROKER_PASSWORD:?set BROKER_PASSWORD}"}
    command = broker["command"]
    assert isinstance(command, list)
    assert "${" not in " ".join(command)  # Compose would write the value into the arguments
    entry = (
        tmp_path / "docker-entrypoint.sh"
    )  # in place of the image's own, which gives up the rights of root
    entry.write_text('#!/bin/sh\necho "$@"; cat\n')
    entry.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "BROKER_PASSWORD": "abc123"}
    words = [word.replace("$$", "$") for word in command]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "valkey-server - --appendonly yes\nrequirepass abc123\n"


SERVICE_KEYS = {
    "image",
    "build",
    "command",
    "entrypoint",
    "hostname",
    "environment",
    "depends_on",
    "volumes",
    "ports",
    "shm_size",
    "init",
    "stop_grace_period",
    "restart",
    "deploy",
    "profiles",
}
