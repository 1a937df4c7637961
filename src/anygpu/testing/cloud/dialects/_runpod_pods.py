"""A pod as it is asked for, and as RunPod describes it."""

import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from anygpu.testing.cloud.dialects._runpod_goods import GPUS, SECURE, VENDOR, Gpu, type_name
from anygpu.testing.cloud.dialects._wire import iso, text
from anygpu.testing.cloud.instance import Cause, Instance, Order, State

SSH = "22/tcp"
START = "/start.sh"  # the images' own command: it starts the SSH server when there is a PUBLIC_KEY


def order_of(given: Mapping[str, Any], gpu_id: str, data_center: str, id: str) -> Order:
    kind = type_name(gpu_id, int(given.get("gpuCount") or 1), str(given.get("cloudType") or SECURE))
    command = shlex.join(given.get("dockerStartCmd") or ())
    env = {str(name): str(value) for name, value in (given.get("env") or {}).items()}
    serves_ssh = SSH in (given.get("ports") or (SSH,)) and (not command or START in command)
    keys = env.get("PUBLIC_KEY", "").splitlines() if serves_ssh else []
    return Order(
        vendor=VENDOR,
        type=kind,
        region=data_center,
        name=given.get("name") or "my pod",
        spot=bool(given.get("interruptible")),
        user_data=f"#!/bin/sh\n{command.replace(START, 'true')}\n".encode() if command else b"",
        public_keys=tuple(key for key in keys if key.strip()),
        disk_gib=int(given.get("containerDiskInGb") or 50),
        env={**env, "RUNPOD_POD_ID": id},
        native={**given, "imageName": text(given, "imageName")},
    )


def _gpu(id: str) -> Gpu:
    return next(gpu for gpu in GPUS if gpu.id == id)


def _last_change(instance: Instance) -> str:
    what, at_ms = "Rented by User", instance.created_at_ms
    if instance.stopped_at_ms is not None:
        what = "Outbid" if instance.cause is Cause.PREEMPTED else "Exited by User"
        at_ms = instance.stopped_at_ms
    when = datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%a %b %d %Y %H:%M:%S GMT+0000")
    return f"{what}: {when} (Coordinated Universal Time)"


def pod_json(instance: Instance, ssh_port: int) -> dict[str, Any]:
    kind, given = instance.type, instance.order.native
    up = instance.state is State.RUNNING
    ports = given.get("ports") or ["8888/http", SSH]
    dollars = instance.price_microusd_per_hour / 1_000_000
    return {
        "id": instance.id,
        "name": instance.name,
        "desiredStatus": "EXITED" if instance.state.over or instance.state is State.STOPPED else "RUNNING",
        "image": given.get("imageName"),
        "env": dict(given.get("env") or {}),
        "ports": ports,
        "publicIp": instance.address if up else "",
        "portMappings": {"22": ssh_port} if up and SSH in ports else {},
        "interruptible": instance.order.spot,
        "costPerHr": dollars,
        "adjustedCostPerHr": dollars,
        "gpu": {"id": kind.gpu_kind, "count": kind.gpu_count, "displayName": _gpu(kind.gpu_kind).title},
        "vcpuCount": kind.vcpus,
        "memoryInGb": kind.memory_gib,
        "containerDiskInGb": instance.order.disk_gib,
        "volumeInGb": given.get("volumeInGb", 20),
        "machineId": instance.zone.lower(),
        "machine": {"dataCenterId": instance.region, "gpuTypeId": kind.gpu_kind},
        "lastStartedAt": iso(instance.created_at_ms),
        "lastStatusChange": _last_change(instance),
        "locked": False,
    }
