"""Onto a job's machine with the system's own ssh; its keys lie in a directory that goes afterwards."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from anygpu.cli import words
from anygpu.cli.output import emit_json
from anygpu.errors import AnygpuError
from anygpu.sdk.client import Client


class NeedsSsh(AnygpuError):
    """There is no `ssh` on this machine. Install OpenSSH's client."""

    code = "needs_ssh"


def enter(client: Client, job: str, command: tuple[str, ...], *, as_json: bool = False) -> None:
    """Ends the process with the status of the remote command."""
    if as_json:
        emit_json(client.shell(job))
        return
    program = shutil.which("ssh")
    if program is None:
        raise NeedsSsh
    shell, about = client.shell(job), client.job(job)
    _tell_cost(about)
    with tempfile.TemporaryDirectory(prefix="anygpu-ssh-") as directory:
        done = subprocess.run([program, *arguments(shell, Path(directory)), *command], check=False)
    sys.exit(done.returncode)


def arguments(shell: dict[str, Any], directory: Path) -> list[str]:
    """Options that use nothing of the person's own: no agent, no known hosts, no other keys."""
    options = {"UserKnownHostsFile": str(_known_hosts(shell, directory)), "GlobalKnownHostsFile": "/dev/null"}
    options["StrictHostKeyChecking"] = "yes" if shell["host_keys"] else "accept-new"
    if shell["private_key"]:
        options |= {"IdentityFile": str(_key(shell, directory)), "IdentitiesOnly": "yes"}
    chosen = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    return [*chosen, "-p", str(shell["port"]), f"{shell['user']}@{shell['host']}"]


def _known_hosts(shell: dict[str, Any], directory: Path) -> Path:
    host = shell["host"] if shell["port"] == 22 else f"[{shell['host']}]:{shell['port']}"
    path = directory / "known_hosts"
    path.write_text("".join(f"{host} {key}\n" for key in shell["host_keys"]))
    return path


def _key(shell: dict[str, Any], directory: Path) -> Path:
    path = directory / "key"
    path.touch(mode=0o600)
    path.write_text(shell["private_key"])
    return path


def _tell_cost(job: dict[str, Any]) -> None:
    if job.get("cost_microusd"):
        sys.stderr.write(f"{job.get('name') or job['id']}: {words.money(job['cost_microusd'])} so far\n")
