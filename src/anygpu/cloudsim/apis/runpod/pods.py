"""Requests for pods, and the JSON of a pod (docs.runpod.io/api-reference-v2, Pods)."""

import shlex
from collections.abc import Mapping
from typing import Any

from anygpu.cloudsim.apis.json_api import iso_time, required_text
from anygpu.cloudsim.apis.runpod.gpus import SECURE, VENDOR, type_name
from anygpu.cloudsim.errors import CloudError, ErrorReason
from anygpu.cloudsim.instance import Instance, InstanceOrder, InstanceState

SSH = "22/tcp"
START = "/start.sh"  # the default command of RunPod's images; it starts the SSH server if PUBLIC_KEY is set
ACTIONS = {
    "PROVISIONING": ["stop", "terminate"],
    "STARTING": ["stop", "terminate"],
    "RUNNING": ["stop", "terminate"],
    "EXITED": ["terminate"],
}


def order_of(body: Mapping[str, Any], data_center: str, id: str) -> InstanceOrder:
    gpu = body.get("gpu")
    if not isinstance(gpu, dict):
        raise CloudError(ErrorReason.INVALID, "$: exactly one of gpu, cpu is required; send one of the two")
    args = body.get("args") or ""
    env = {str(name): str(value) for name, value in (body.get("env") or {}).items()}
    serves_ssh = SSH in (body.get("ports") or ()) and (not args or START in args)
    keys = env.get("PUBLIC_KEY", "").splitlines() if serves_ssh else []
    return InstanceOrder(
        vendor=VENDOR,
        type=type_name(
            required_text(gpu, "id"), int(gpu.get("count") or 1), str(body.get("cloud") or SECURE)
        ),
        region=data_center,
        name=required_text(body, "name"),
        user_data=f"#!/bin/sh\n{args.replace(START, 'true')}\n".encode() if args else b"",
        public_keys=tuple(key for key in keys if key.strip()),
        disk_gib=int(body.get("disk") or 50),
        env={**env, "RUNPOD_POD_ID": id},
        native={**body, "image": required_text(body, "image")},
    )


def status(instance: Instance) -> str:
    """Return the pod's status as RunPod reports it.

    A pod whose container has exited is reported as RUNNING, and billed, until it is stopped through the API.
    """
    if instance.state is InstanceState.PENDING:
        return "PROVISIONING"
    if instance.state.is_ended or (
        instance.state is InstanceState.STOPPED and instance.order.on_halt == "stop"
    ):
        return "EXITED"
    return "STARTING" if instance.booted_at_ms is None else "RUNNING"


def pod_json(instance: Instance, ssh_port: int) -> dict[str, Any]:
    machine_type, body, now = instance.type, instance.order.native, status(instance)
    ports = list(body.get("ports") or ())
    direct = _direct(instance.address, ssh_port) if now == "RUNNING" and SSH in ports else None
    return {
        "id": instance.id,
        "name": instance.name,
        "image": body["image"],
        "args": body.get("args") or "",
        "disk": instance.order.disk_gib,
        "ports": ports,
        "env": dict(body.get("env") or {}),
        "registry": None,
        "status": now,
        "actions": ACTIONS[now],
        "mounts": {},
        "gpu": {
            "id": machine_type.gpu_kind,
            "count": machine_type.gpu_count,
            "vcpuCount": machine_type.vcpus,
            "memory": machine_type.memory_gib,
        },
        "cloud": body.get("cloud") or SECURE,
        "dataCenterId": instance.region,
        "cudaVersion": "12.8",
        "ssh": {"proxy": None, "direct": direct},
        "template": None,
        "cost": 0.0 if now == "EXITED" else instance.price_microusd_per_hour / 1_000_000,
        "locked": False,
        "globalNetworking": {"enabled": False},
        "runtime": {"uptime": 0} if now == "RUNNING" else None,
        "createdAt": iso_time(instance.created_at_ms, "seconds"),
        "startedAt": iso_time(instance.running_at_ms, "seconds"),
    }


def _direct(host: str, port: int) -> dict[str, Any]:
    command = shlex.join(["ssh", f"root@{host}", "-p", str(port)])
    return {"host": host, "port": port, "username": "root", "command": command}
