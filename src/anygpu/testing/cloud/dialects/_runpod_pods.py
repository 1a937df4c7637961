"""A pod as it is asked for, and as RunPod describes it (docs.runpod.io/api-reference-v2, Pods)."""

import shlex
from collections.abc import Mapping
from typing import Any

from anygpu.testing.cloud.dialects._runpod_goods import SECURE, VENDOR, type_name
from anygpu.testing.cloud.dialects._wire import iso, text
from anygpu.testing.cloud.instance import Instance, Order, State
from anygpu.testing.cloud.refusals import Refusal, Why

SSH = "22/tcp"
START = "/start.sh"  # the images' own command: it starts the SSH server when there is a PUBLIC_KEY
ACTIONS = {
    "PROVISIONING": ["stop", "terminate"],
    "STARTING": ["stop", "terminate"],
    "RUNNING": ["stop", "terminate"],
    "EXITED": ["terminate"],
}


def order_of(given: Mapping[str, Any], data_center: str, id: str) -> Order:
    gpu = given.get("gpu")
    if not isinstance(gpu, dict):
        raise Refusal(Why.INVALID, "$: exactly one of gpu, cpu is required")
    args = given.get("args") or ""
    env = {str(name): str(value) for name, value in (given.get("env") or {}).items()}
    serves_ssh = SSH in (given.get("ports") or ()) and (not args or START in args)
    keys = env.get("PUBLIC_KEY", "").splitlines() if serves_ssh else []
    return Order(
        vendor=VENDOR,
        type=type_name(text(gpu, "id"), int(gpu.get("count") or 1), str(given.get("cloud") or SECURE)),
        region=data_center,
        name=text(given, "name"),
        user_data=f"#!/bin/sh\n{args.replace(START, 'true')}\n".encode() if args else b"",
        public_keys=tuple(key for key in keys if key.strip()),
        disk_gib=int(given.get("disk") or 50),
        env={**env, "RUNPOD_POD_ID": id},
        native={**given, "image": text(given, "image")},
    )


def status(instance: Instance) -> str:
    """A pod whose container is down but that nobody stopped counts as running, and costs as much."""
    if instance.state is State.PENDING:
        return "PROVISIONING"
    if instance.state.over or (instance.state is State.STOPPED and instance.order.on_halt == "stop"):
        return "EXITED"
    return "STARTING" if instance.booted_at_ms is None else "RUNNING"


def pod_json(instance: Instance, ssh_port: int) -> dict[str, Any]:
    kind, given, now = instance.type, instance.order.native, status(instance)
    ports = list(given.get("ports") or ())
    direct = _direct(instance.address, ssh_port) if now == "RUNNING" and SSH in ports else None
    return {
        "id": instance.id,
        "name": instance.name,
        "image": given["image"],
        "args": given.get("args") or "",
        "disk": instance.order.disk_gib,
        "ports": ports,
        "env": dict(given.get("env") or {}),
        "registry": None,
        "status": now,
        "actions": ACTIONS[now],
        "mounts": {},
        "gpu": {
            "id": kind.gpu_kind,
            "count": kind.gpu_count,
            "vcpuCount": kind.vcpus,
            "memory": kind.memory_gib,
        },
        "cloud": given.get("cloud") or SECURE,
        "dataCenterId": instance.region,
        "cudaVersion": "12.8",
        "ssh": {"proxy": None, "direct": direct},
        "template": None,
        "cost": 0.0 if now == "EXITED" else instance.price_microusd_per_hour / 1_000_000,
        "locked": False,
        "globalNetworking": {"enabled": False},
        "runtime": {"uptime": 0} if now == "RUNNING" else None,
        "createdAt": iso(instance.created_at_ms, "seconds"),
        "startedAt": iso(instance.running_at_ms, "seconds"),
    }


def _direct(host: str, port: int) -> dict[str, Any]:
    command = shlex.join(["ssh", f"root@{host}", "-p", str(port)])
    return {"host": host, "port": port, "username": "root", "command": command}
