"""The request that starts an attempt as a Ray job, and the package with the agent that the job needs.

Ray copies the package to the node and makes it the working directory of the job. The ticket is in an environment
variable of the job. Everybody who may use the cluster's API can read it there, but only the first agent that presents
it gets the attempt.
"""

import io
import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from anygpu.agent.host.engine import START_VARIABLE
from anygpu.backends.batch.command import agent_command, ticket_content
from anygpu.backends.contract import LaunchRequest, NativeRequest
from anygpu.backends.ray.nodes import ACCELERATOR, ACCELERATOR_LABEL, KIND_SHARE, RayDemand, RayNode
from anygpu.backends.ray.options import RayOptions

AGENT_FILE = "anygpu-agent.pyz"
START_FILE = "start.sh"
ENTRYPOINT = f"exec sh {START_FILE}"
FIXED_DATE = (1980, 1, 1, 0, 0, 0)
OWNER, JOB, ATTEMPT = "anygpu_owner", "anygpu_job", "anygpu_attempt"  # keys of the job's metadata


@dataclass(frozen=True, slots=True)
class AgentPackage:
    """A package of the cluster: a zip file with the agent and the script that starts it."""

    name: str
    data: bytes

    @property
    def uri(self) -> str:
        return f"gcs://{self.name}"


def start_script(python: str = "") -> str:
    """Return the shell script that finds a Python on the node and starts the agent with it."""
    return f"{agent_command(AGENT_FILE, '--engine', python=python)}\n"


def build_package(agent: bytes, python: str = "") -> AgentPackage:
    """Build the package. The same agent always gives the same bytes and the same name."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in ((AGENT_FILE, agent), (START_FILE, start_script(python).encode())):
            archive.writestr(zipfile.ZipInfo(name, FIXED_DATE), data)
    data = buffer.getvalue()
    return AgentPackage(f"_ray_pkg_anygpu_{sha256(data).hexdigest()[:24]}.zip", data)


def build_submission(
    launch: LaunchRequest, node: RayNode, *, options: RayOptions, package: str, owner: str
) -> dict[str, Any]:
    """Return the body of `POST /api/jobs/` that starts the attempt on a node like `node`."""
    demand = RayDemand.of(launch.resources, options)
    start = {
        "ticket": ticket_content(launch, sigterm_notice_s=options.stop_wait_s),
        "directory": options.directory,
        "gpus": demand.gpus,
    }
    body: dict[str, Any] = {
        "submission_id": launch.name,
        "entrypoint": ENTRYPOINT,
        "entrypoint_num_cpus": demand.cpus,
        "entrypoint_num_gpus": demand.gpus,
        "metadata": {OWNER: owner, JOB: launch.job_id, ATTEMPT: str(launch.attempt)},
        "runtime_env": {"working_dir": package, "env_vars": {START_VARIABLE: json.dumps(start)}},
    }
    if demand.memory_bytes:
        body["entrypoint_memory"] = demand.memory_bytes
    return body | (_kind_request(node) if demand.gpus else {})


def _kind_request(node: RayNode) -> dict[str, Any]:
    """Return the fields that place the job on a node with this kind of GPU."""
    if not node.accelerator:
        return {}
    if node.is_labelled:
        return {"entrypoint_label_selector": {ACCELERATOR_LABEL: node.accelerator}}
    return {"entrypoint_resources": {f"{ACCELERATOR}{node.accelerator}": KIND_SHARE}}


def show_submission(body: Mapping[str, Any], address: str, python: str) -> list[NativeRequest]:
    """Return the requests of a launch as text. The body was built for a launch request without secrets."""
    return [
        NativeRequest.of_json(f"POST {address}/api/jobs/", body),
        NativeRequest(
            title=f"{START_FILE} in the working directory, which also has {AGENT_FILE}",
            language="sh",
            text=start_script(python),
        ),
    ]
