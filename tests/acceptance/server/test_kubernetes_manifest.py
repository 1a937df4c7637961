"""A server starts with the command and the environment of deploy/kubernetes/server.yaml."""

import base64
import os
import re
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.acceptance.machines.cloud import free_port
from tests.acceptance.server.test_relay_crashes import bucket_of, storage_environment
from tests.contracts.blobs.conftest import emulators, s3  # noqa: F401 - fixtures
from tests.contracts.store.conftest import postgres_url  # noqa: F401 - a fixture
from tests.contracts.store.test_move import target  # noqa: F401 - a fixture

# The first run installs the emulator of the bucket.
pytestmark = [pytest.mark.extended, pytest.mark.timeout(600)]
Json = dict[str, Any]
MANIFEST = Path(__file__).parents[3] / "deploy" / "kubernetes" / "server.yaml"
LIMIT_S = 120.0


class Container:
    """The container of the manifest as a process: its directories are in a folder, and its ports are free ones."""

    def __init__(self, folder: Path, replaced: Mapping[str, str]) -> None:
        self.folder = folder
        self.documents: list[Json] = [each for each in yaml.safe_load_all(MANIFEST.read_text()) if each]
        self.pod: Json = self.document("Deployment")["spec"]["template"]["spec"]
        [self.spec] = self.pod["containers"]
        self.ports = {each["name"]: (each["containerPort"], free_port()) for each in self.spec["ports"]}
        self.home = folder / "home"
        self._replaced = replaced
        self._log = folder / "log"

    def document(self, kind: str, name: str = "anygpu") -> Json:
        [found] = [
            each for each in self.documents if (each["kind"], each["metadata"]["name"]) == (kind, name)
        ]
        return found

    def start(self) -> None:
        for mount in self.spec["volumeMounts"]:
            (self.folder / mount["mountPath"].strip("/")).mkdir(exist_ok=True)
        self.home.mkdir()
        write_keys(self.folder / "keys")
        command = [self._map_paths(word) for word in (*self.spec["command"], *self.spec.get("args", ()))]
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command, env=self.environment(), cwd=self.folder, stdout=log, stderr=log
            )

    def environment(self) -> dict[str, str]:
        """Return the variables of the container, with the values of this test."""
        found = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "TMPDIR": str(self.folder / "tmp"),
        }
        for source in self.spec["envFrom"]:
            found |= self.document("Secret", source["secretRef"]["name"])["stringData"]
        fields = {"status.podIP": "127.0.0.1", "metadata.namespace": "ml"}
        for variable in self.spec["env"]:
            field = variable.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
            found[variable["name"]] = fields[field] if field else self._expand(variable["value"], found)
        return {**found, **self._replaced}

    def _expand(self, value: str, before: Mapping[str, str]) -> str:
        """Replace `$(NAME)` as the kubelet does, by variables that were defined before."""
        for name, text in before.items():
            value = value.replace(f"$({name})", text)
        assert "$(" not in value
        for number, own in self.ports.values():
            value = value.replace(str(number), str(own))
        return self._map_paths(value)

    def _map_paths(self, text: str) -> str:
        paths = "|".join(re.escape(mount["mountPath"]) for mount in self.spec["volumeMounts"])
        return re.sub(rf"(?<!\S)({paths})(?=/|\s|$)", rf"{self.folder}\1", text)

    def answer(self, probe: Json) -> int:
        """Send the request of a probe, and return the status. 0: nothing answers."""
        request = probe["httpGet"]
        headers = {each["name"]: each["value"] for each in request["httpHeaders"]}
        return self.status(request["port"], request["path"], headers)

    def status(self, port: str, path: str, headers: Mapping[str, str]) -> int:
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.ports[port][1]}{path}", headers=dict(headers)
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            with error:
                return error.code
        except OSError:
            return 0

    def wait_ready(self) -> None:
        end = time.monotonic() + LIMIT_S
        while self.answer(self.spec["readinessProbe"]) != 200:
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < end, self.log()
            time.sleep(0.1)

    def log(self) -> str:
        return self._log.read_text()


def write_keys(folder: Path) -> None:
    """Write the keys as the comment of the manifest says, readable by the group as in a volume of a Secret."""
    for name, content in (
        ("signing.key", secrets.token_bytes(32)),
        ("secrets.key", base64.urlsafe_b64encode(secrets.token_bytes(32)) + b"\n"),
    ):
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o440)


@pytest.fixture
def container(
    target: str,  # noqa: F811
    s3: dict[str, object],  # noqa: F811
    tmp_path: Path,
) -> Iterator[Container]:
    storage = storage_environment(s3, bucket_of(tmp_path))
    made = Container(tmp_path, {"ANYGPU_STORE__DATABASE": target, **storage})
    made.start()
    yield made
    made.process.terminate()
    try:
        made.process.wait(made.pod["terminationGracePeriodSeconds"])
    finally:
        made.process.kill()


def test_the_server_of_the_manifest_becomes_ready_and_agents_reach_it_through_the_service(
    container: Container,
) -> None:
    container.wait_ready()
    assert container.answer(container.spec["livenessProbe"]) == 200
    assert "/login" in container.log(), "the documented login link"
    service = container.document("Service", "anygpu-agents")
    [port] = service["spec"]["ports"]
    shared = container.environment()["ANYGPU_SERVER__AGENT_SHARED_URL"]
    assert shared == f"http://{service['metadata']['name']}.ml.svc:{container.ports[port['targetPort']][1]}"
    host = {"Host": shared.removeprefix("http://")}
    assert container.status(port["targetPort"], "/agent/v1/orders", host) == 401
    for each in (service, container.document("Service")):
        labels = container.document("Deployment")["spec"]["template"]["metadata"]["labels"]
        assert each["spec"]["selector"].items() <= labels.items()
    container.process.terminate()
    assert container.process.wait(container.pod["terminationGracePeriodSeconds"]) == 0, container.log()
    assert not list(container.home.iterdir()), "the file system of the container is read-only"
