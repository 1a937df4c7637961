"""A real server whose jobs run in a real cluster, with the rights of deploy/kubernetes/rbac.yaml and no others."""

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml
from lightkube import ApiError, Client
from lightkube.codecs import from_dict
from lightkube.resources.core_v1 import Pod, ServiceAccount
from scripts.clusters.kubernetes import ControlPlane
from tests.acceptance.machines.cloud import BRISK, Server
from tests.clusters.example_job import (
    STEPS,
    make_project,
    model_bytes,
    recovery_codes,
    submit,
    write_job,
)
from tests.clusters.kubernetes.place import list_objects

ROOT = Path(__file__).parents[3]
RBAC = ROOT / "deploy" / "kubernetes" / "rbac.yaml"


def apply_manifests(admin: Client, path: Path, namespace: str) -> None:
    """Create the objects of a file, as `kubectl apply --namespace` does."""
    for document in yaml.safe_load_all(path.read_text().replace("namespace: ml", f"namespace: {namespace}")):
        thing: Any = from_dict(document)
        where: dict[str, Any] = {} if document["kind"].startswith("Cluster") else {"namespace": namespace}
        try:
            admin.create(thing, **where)
        except ApiError as error:
            if error.status.code != 409:
                raise
            admin.delete(type(thing), document["metadata"]["name"], **where)
            admin.create(thing, **where)


def make_token(admin: Client, namespace: str, account: str = "anygpu") -> str:
    """Return a token of a service account, as `kubectl create token` does."""
    request: Any = ServiceAccount.Token.from_dict(
        {"metadata": {"namespace": namespace}, "spec": {"audiences": [], "expirationSeconds": 7200}}
    )
    request.apiVersion, request.kind = "authentication.k8s.io/v1", "TokenRequest"
    made: Any = admin.create(request, account, namespace=namespace)
    return str(made.status.token)


class Product:
    """A server with a Kubernetes backend. `submit` sends the example job with checkpoints."""

    def __init__(
        self,
        folder: Path,
        plane: ControlPlane,
        admin: Client,
        namespace: str,
        *,
        environment: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        self.admin, self.namespace = admin, namespace
        self._project = make_project(folder)
        apply_manifests(admin, RBAC, namespace)
        self.token = make_token(admin, namespace)
        values = {
            "kind": "kubernetes",
            "api_url": plane.url,
            "token": self.token,
            "certificate_authority": plane.certificate.read_text(),
            "namespace": namespace,
            "grace_s": 20,
            **options,
        }
        lines = [f"{name} = {json.dumps(value)}" for name, value in values.items()]
        settings = "\n".join(["[backends.cluster]", *lines, ""])
        self.server = Server(
            folder, settings, **{**BRISK, "ANYGPU_AGENT__LEASE_S": "60", **(environment or {})}
        )

    def submit(self, *options: str, steps: int = STEPS) -> str:
        return submit(self.server, self._project, "cluster", *options, steps=steps)

    def write_job(self, steps: int = STEPS) -> Path:
        """Write the job file, and return its directory."""
        return write_job(self._project, steps)

    def wait_for_checkpoint(self, job_id: str) -> dict[str, Any]:
        return self.server.until(job_id, lambda job: bool(job["checkpoint"]), within_s=60)

    def pod(self, job_id: str) -> Pod:
        """Return the pod of the newest attempt."""
        name = f"anygpu-{job_id.replace('-', '')}-{self.server.job(job_id)['attempt']}"
        [pod] = self.admin.list(Pod, namespace=self.namespace, labels={"anygpu/attempt": name})
        return pod

    def model(self, job_id: str) -> bytes:
        return model_bytes(self.server, job_id)

    def codes(self, job_id: str) -> list[str]:
        return recovery_codes(self.server, job_id)

    def wait_until_empty(self, within_s: float = 40) -> None:
        wait_until(lambda: list_objects(self.admin, self.namespace) == [], within_s)


def wait_until(holds: Callable[[], bool], within_s: float = 30) -> None:
    end = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < end, "the condition did not become true within the time limit of the test"
        time.sleep(0.1)
