"""A machine's directory, and the environment variables of its processes."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from anygpu.cloudsim.instance import Instance
from anygpu.cloudsim.machine.processes import MACHINE_VARIABLE
from anygpu.cloudsim.machine.shutdown import COMMANDS

# Variables that machines inherit from the simulator: language, certificates, package indexes, and
# switches that disable network access in tests. None is a credential.
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
METADATA_PORT = 1338  # of each machine's internal address


PublicKey = tuple[str, ...]  # key type and key data


def public_key(line: str) -> PublicKey:
    return tuple(line.split()[:2])


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineHost:
    """The directory and SSH port that all simulated machines share."""

    directory: Path
    ssh_port: int

    def prepare(self) -> None:
        """Write the commands that replace `shutdown`, `sudo` and others on the PATH of machines."""
        self.commands.mkdir(parents=True, exist_ok=True)
        for name, text in COMMANDS.items():
            (self.commands / name).write_text(text)
            (self.commands / name).chmod(0o755)

    @property
    def commands(self) -> Path:
        return self.directory / "bin"


class MachineDirectory:
    """A machine's directory: home, temporary files, boot log.

    `variables` are added to the environment of the machine's processes.
    """

    def __init__(self, path: Path, variables: Mapping[str, str]) -> None:
        self.path = path
        self.home = self.path / "home"
        self.log = self.path / "cloud-init-output.log"
        self.file_size_limit = self.path / "limit"  # in KiB, read by sshd's login script
        self.authorized_keys = self.home / ".ssh" / "authorized_keys"
        self._variables = variables

    def read_authorized_keys(self) -> set[PublicKey]:
        """Read the keys that may log in.

        Called at each login, so that keys added on the machine are accepted.
        """
        lines = self.authorized_keys.read_text().splitlines()
        return {public_key(line) for line in lines if line.strip() and not line.startswith("#")}

    def create(self, keys: tuple[str, ...]) -> None:
        self.authorized_keys.parent.mkdir(parents=True, mode=0o700)
        (self.path / "tmp").mkdir()
        self.authorized_keys.write_text("".join(f"{key.strip()}\n" for key in keys))
        self.authorized_keys.chmod(0o600)

    def env(self, user: str = "root") -> dict[str, str]:
        return {
            **_inherited_variables(),
            MACHINE_VARIABLE: str(self.path),
            "HOME": str(self.home),
            "TMPDIR": str(self.path / "tmp"),
            "SHELL": shell(),
            "USER": user,
            "LOGNAME": user,
            **self._variables,
        }


def instance_variables(host: MachineHost, instance: Instance) -> dict[str, str]:
    """Return environment variables of an instance: PATH, metadata addresses, those of the launch request."""
    metadata = f"{instance.internal_ip}:{METADATA_PORT}"
    path = [str(host.commands), str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)]
    return {
        "PATH": os.pathsep.join(path),
        "ANYGPU_SIM_METADATA": f"http://{metadata}",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": f"http://{metadata}",
        "GCE_METADATA_HOST": metadata,
        "AZURE_POD_IDENTITY_AUTHORITY_HOST": f"http://{metadata}",
        **instance.order.env,
    }


def shell() -> str:
    return "/bin/bash" if Path("/bin/bash").exists() else "/bin/sh"


def _inherited_variables() -> dict[str, str]:
    return {
        name: value
        for name, value in os.environ.items()
        if name in INHERITED or name.startswith(INHERITED_PREFIXES)
    }
