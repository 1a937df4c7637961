"""A machine's directory, and the environment variables of its processes."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from anygpu.cloudsim.instance import Instance
from anygpu.cloudsim.machine.processes import MACHINE_VARIABLE
from anygpu.cloudsim.machine.shutdown import COMMANDS

# What a machine's image has from where the simulator runs: language, certificates, where packages come from, and
# the switches that keep tests off the network. No credential is among them.
INHERITED = (
    "LANG",
    "LC_ALL",
    "TZ",
    "SSL_CERT_FILE",
    "HF_HUB_OFFLINE",
    "YOLO_OFFLINE",
    "WANDB_MODE",
    "DO_NOT_TRACK",
)
INHERITED_PREFIXES = ("PIP_", "UV_")


PublicKey = tuple[str, ...]  # its kind and its body


def public_key(connection: str) -> PublicKey:
    return tuple(connection.split()[:2])


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineHost:
    """Where machines live: what all of them share."""

    directory: Path
    ssh_port: int
    metadata_port: int
    env: Mapping[str, str]

    def prepare(self) -> None:
        """Commands every machine finds first on its PATH."""
        self.commands.mkdir(parents=True, exist_ok=True)
        for name, text in COMMANDS.items():
            (self.commands / name).write_text(text)
            (self.commands / name).chmod(0o755)

    @property
    def commands(self) -> Path:
        return self.directory / "bin"


class MachineDirectory:
    """One machine's own directory: home, temporary files, log of its start."""

    def __init__(self, host: MachineHost, instance: Instance) -> None:
        self.host = host
        self.path = host.directory / "machines" / instance.id
        self.home = self.path / "home"
        self.log = self.path / "cloud-init-output.log"
        self.file_size_limit = (
            self.path / "limit"
        )  # KiB a file may have, for shells that this process does not start
        self.authorized_keys = self.home / ".ssh" / "authorized_keys"
        self._instance = instance

    def read_authorized_keys(self) -> set[PublicKey]:
        """The file is read at each login, so a key added on the machine counts too."""
        lines = self.authorized_keys.read_text().splitlines()
        return {
            public_key(connection)
            for connection in lines
            if connection.strip() and not connection.startswith("#")
        }

    def create(self, keys: tuple[str, ...]) -> None:
        self.authorized_keys.parent.mkdir(parents=True, mode=0o700)
        (self.path / "tmp").mkdir()
        self.authorized_keys.write_text("".join(f"{key.strip()}\n" for key in keys))
        self.authorized_keys.chmod(0o600)

    def env(self, user: str = "root") -> dict[str, str]:
        metadata = f"{self._instance.internal_ip}:{self.host.metadata_port}"
        path = [str(self.host.commands), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
        return {
            **_inherited_variables(),
            MACHINE_VARIABLE: str(self.path),
            "HOME": str(self.home),
            "PATH": os.pathsep.join(path),
            "TMPDIR": str(self.path / "tmp"),
            "SHELL": shell(),
            "USER": user,
            "LOGNAME": user,
            "ANYGPU_SIM_METADATA": f"http://{metadata}",
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://{metadata}",
            "GCE_METADATA_HOST": metadata,
            "AZURE_POD_IDENTITY_AUTHORITY_HOST": f"http://{metadata}",
            **self.host.env,
            **self._instance.order.env,
        }


def shell() -> str:
    return "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"


def _inherited_variables() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name in INHERITED or name.startswith(INHERITED_PREFIXES)
    }
