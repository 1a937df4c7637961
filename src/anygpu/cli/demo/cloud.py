"""The demo's simulated cloud: `anygpu cloud-sim` in a child process, controlled over HTTP."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

BOOT = "1.5s"
NOTICE_S = 8.0  # notice before a preemption, in seconds; AWS gives two minutes
REGION, TYPE = "us-east-1", "g4dn.xlarge"


class DemoCloud:
    """A simulated cloud whose machines are real processes with SSH, metadata and billing."""

    def __init__(self, log: Path) -> None:
        command = [sys.executable, "-c", "from anygpu.cli.main import main; main()", "cloud-sim"]
        self._log = log.open("wb")
        self._process = subprocess.Popen(
            [*command, "--json", "--boot", BOOT],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"The simulated cloud of the demo did not start. The end of its log: {log.read_text()[-500:]}"
            )
        self._endpoints: dict[str, Any] = json.loads(line)

    def settings(self) -> str:
        """Return the settings file of a server that rents machines only from this cloud."""
        aws, lambda_cloud = self._endpoints["endpoints"]["ec2"], self._endpoints["endpoints"]["lambda"]
        credentials = self._endpoints["credentials"]
        return SETTINGS.format(
            ec2=aws,
            lambda_cloud=lambda_cloud,
            port=self._endpoints["ssh_port"],
            region=REGION,
            type=TYPE,
            key_id=credentials["ec2"][0],
            secret=credentials["ec2"][1],
            api_key=credentials["lambda"][0],
        )

    def preempt(self, name: str) -> None:
        """Preempt the machine whose name starts with `name`. Its provider has no capacity from then on."""
        self._request("faults", {"kind": "no_capacity", "vendor": "ec2"})
        machine = next(each for each in self.machines() if each["name"].startswith(name))
        self._request(f"preempt/{machine['id']}", {"notice_s": NOTICE_S})

    def machines(self) -> list[dict[str, Any]]:
        return list(self._request("instances"))

    def bills(self) -> list[dict[str, Any]]:
        return list(self._request("books"))

    def stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._log.close()

    def _request(self, what: str, body: Mapping[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self._endpoints['control']}/{what}", data=data)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.load(answer)


SETTINGS = """\
[local]
enabled = false

[backends.aws]
kind = "ec2"
endpoint = "{ec2}"
ssh_port = {port}
regions = ["{region}"]
instance_types = ["{type}"]
access_key_id = "{key_id}"
secret_access_key = "{secret}"

[backends.lambda]
kind = "lambda"
endpoint = "{lambda_cloud}"
ssh_port = {port}
api_key = "{api_key}"
unattended = true  # Lambda machines do not end themselves; the demo waits until they have ended
"""
