"""Answers that a Ray 2.60 cluster gave, and a dashboard that gives them."""

import json
from collections.abc import Callable
from typing import Any

import httpx

from anygpu.backends.contract import LaunchRequest
from anygpu.backends.ray.api import RayClient
from anygpu.backends.ray.backend import RayBackend
from anygpu.backends.ray.options import RayOptions
from anygpu.spec.sections import Resources

ADDRESS = "http://127.0.0.1:8265"
NODE = "9bfe8969d50dd426118b5ebf4dd791f5450fa7c2b6ee962ce6e75255"
LISTED = {
    "node_id": NODE,
    "node_ip": "192.0.2.2",
    "is_head_node": True,
    "state": "ALIVE",
    "resources_total": {
        "CPU": 4.0,
        "accelerator_type:T4": 1.0,
        "node:192.0.2.2": 1.0,
        "memory": 24017128448.0,
        "GPU": 2.0,
    },
    "labels": {"ray.io/node-id": NODE},
}
USAGE = {
    NODE: {
        "acceleratorType:T4": [0.001, 1.0],
        "memory": [1e6, 24017128448.0],
        "CPU": [1.0, 4.0],
        "GPU": [1.0, 2.0],
    }
}
RECORD = {
    "type": "SUBMISSION",
    "submission_id": "anygpu-1",
    "status": "RUNNING",
    "message": "Job is currently running.",
    "error_type": None,
    "end_time": None,
    "metadata": {"anygpu_owner": "x"},
    "driver_node_id": NODE,
    "driver_exit_code": None,
}
EXISTS = "ValueError: Job with submission_id anygpu-1 already exists. Please use a different submission_id.\n"
OPTIONS = RayOptions(address=ADDRESS)
GPU = Resources.model_validate({"gpu": "T4"})


def launch(**fields: Any) -> LaunchRequest:
    given = {"resources": GPU, "ticket": "secret-ticket", "agent_url": "http://127.0.0.1:9", **fields}
    return LaunchRequest(name="anygpu-1", job_id="job", attempt=1, **given)


class Dashboard:
    """Answers requests like the dashboard of a Ray cluster, and records them."""

    def __init__(self, **answers: Callable[[httpx.Request], httpx.Response]) -> None:
        self.requests: list[httpx.Request] = []
        self.records: dict[str, dict[str, Any]] = {}
        self.packages: set[str] = set()
        self.answers = answers

    def backend(self, **options: Any) -> RayBackend:
        chosen = RayOptions.model_validate({"address": ADDRESS, **options})
        client = RayClient(chosen, transport=httpx.MockTransport(self.answer))
        return RayBackend("lab", chosen, secret=b"s", client=client)

    def answer(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        path = request.url.path
        key = path.strip("/").split("/")[1] if path.startswith("/api/") else path
        if key in self.answers:
            return self.answers[key](request)
        if path == "/api/version":
            return httpx.Response(200, json={"version": "4", "ray_version": "2.60.0"})
        if path == "/api/v0/nodes":
            return httpx.Response(200, json={"data": {"result": {"result": [LISTED]}}})
        if path == "/api/cluster_status":
            return httpx.Response(
                200, json={"data": {"clusterStatus": {"loadMetricsReport": {"usageByNode": USAGE}}}}
            )
        if path.startswith("/api/packages/"):
            return self._answer_package(request)
        return self._answer_job(request)

    def _answer_package(self, request: httpx.Request) -> httpx.Response:
        name = request.url.path.rpartition("/")[2]
        if request.method == "PUT":
            self.packages.add(name)
        return httpx.Response(200 if name in self.packages else 404)

    def _answer_job(self, request: httpx.Request) -> httpx.Response:
        name = request.url.path.removeprefix("/api/jobs/").partition("/")[0]
        if request.method == "POST" and not name:
            body = json.loads(request.content)
            self.records[body["submission_id"]] = {
                **RECORD,
                "status": "PENDING",
                "metadata": body["metadata"],
            }
            return httpx.Response(200, json={"submission_id": body["submission_id"]})
        if not name:
            return httpx.Response(200, json=list(self.records.values()))
        if name not in self.records:
            return httpx.Response(404, text=f"Job {name} does not exist")
        if request.url.path.endswith("/logs"):
            return httpx.Response(200, json={"logs": "a line\n"})
        return httpx.Response(200, json=self.records[name])

    def sent(self, method: str) -> list[str]:
        return [each.url.path for each in self.requests if each.method == method]
