"""The VM provider Paperspace (docs.digitalocean.com/reference/paperspace/api-reference).

There is no API for SSH keys, so the startup script installs the attempt's key. The script has the attempt's
name and is deleted with the machine. The auto-shutdown of a Linux machine is a fixed time after its start,
from one hour to one week (docs.digitalocean.com/products/paperspace/machines/how-to/manage-auto-shutdown). It
limits the lifetime of a machine if the server stops. The disk of a machine that is off is billed until the
machine is deleted. Billing is per hour. The API has no prices, so they are in `TYPES`.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import httpx
from pydantic import Field, SecretStr

from anygpu.backends.contract import AccountStatus, Leftover, NativeRequest
from anygpu.backends.vm.http import NAME_PREFIX, VendorClient, VendorInfo, unix_ms
from anygpu.backends.vm.options import VmOptions
from anygpu.backends.vm.provider import CloudMachine, MachineOrder, PowerState, Provider
from anygpu.errors import LaunchRefused
from anygpu.events.offers import Billing, Offer
from anygpu.spec.sections import Resources

VENDOR = VendorInfo(
    name="Paperspace",
    base_url="https://api.paperspace.com",
    variable="PAPERSPACE_API_KEY",
    no_capacity=("out of capacity", "no capacity", "insufficient capacity", "not available in"),
)
REGIONS = ("ny2", "ca1", "ams1")
BY_THE_HOUR = Billing(step_s=3600)
HOUR_S, WEEK_H = 3600, 168
POWER = {
    "provisioning": PowerState.STARTING,
    "starting": PowerState.STARTING,
    "restarting": PowerState.STARTING,
    "upgrading": PowerState.STARTING,
    "ready": PowerState.RUNNING,
    "serviceready": PowerState.RUNNING,
    "stopping": PowerState.ENDING,
    "off": PowerState.STOPPED,
    "failed": PowerState.STOPPED,
}
SCRIPT = """#!/bin/sh
home=$(getent passwd paperspace | cut -d: -f6)
home=${{home:-$HOME}}
mkdir -p "$home/.ssh" && chmod 700 "$home/.ssh"
echo '{public_key}' >> "$home/.ssh/authorized_keys"
chmod 600 "$home/.ssh/authorized_keys"
chown -R paperspace "$home/.ssh" 2>/dev/null
{startup}
"""


class PaperspaceType(NamedTuple):
    """A machine type with its hardware and price. The API does not list machine types."""

    name: str
    gpu_kind: str
    gpu_count: int
    gpu_memory_gib: float
    cpus: int
    memory_gib: float
    microusd_per_hour: int


# Prices of 2025-09-11, from the skypilot-catalog list of Paperspace's own price page.
TYPES = (
    PaperspaceType("GPU+", "M4000", 1, 8, 8, 30, 450_000),
    PaperspaceType("P4000", "P4000", 1, 8, 8, 30, 510_000),
    PaperspaceType("P4000x2", "P4000", 2, 8, 16, 60, 1_020_000),
    PaperspaceType("A4000", "A4000", 1, 16, 8, 45, 760_000),
    PaperspaceType("A4000x2", "A4000", 2, 16, 16, 90, 1_520_000),
    PaperspaceType("A4000x4", "A4000", 4, 16, 32, 180, 3_040_000),
    PaperspaceType("V100", "V100", 1, 16, 8, 30, 2_290_000),
    PaperspaceType("V100-32G", "V100", 1, 32, 8, 30, 2_300_000),
    PaperspaceType("V100-32Gx2", "V100", 2, 32, 16, 60, 4_600_000),
    PaperspaceType("V100-32Gx4", "V100", 4, 32, 32, 120, 9_200_000),
    PaperspaceType("A100-80G", "A100", 1, 80, 12, 90, 3_180_000),
    PaperspaceType("A100-80Gx8", "A100", 8, 80, 96, 640, 25_440_000),
    PaperspaceType("H100", "H100", 1, 80, 15, 80, 5_950_000),
    PaperspaceType("H100x8", "H100", 8, 80, 128, 640, 47_600_000),
)


class PaperspaceOptions(VmOptions):
    """Options of a Paperspace backend."""

    api_key: SecretStr | None = Field(None, description="API key; default: the variable PAPERSPACE_API_KEY")
    template: str = Field(
        "", description="id of the OS template; empty: an Ubuntu template for the machine type"
    )
    network: str = Field("", description="id of a private network; empty: the team's default")
    disk_gib: int = Field(
        100, ge=50, description="size of a machine's disk; billed until the machine is deleted"
    )


class PaperspaceProvider:
    """Creates, lists and destroys Paperspace machines."""

    self_expires = "max_duration"
    idempotent = False
    listing_lag_s = 10.0
    notices = ""

    def __init__(self, options: PaperspaceOptions, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._options = options
        self.user = options.user or "paperspace"
        self._http = VendorClient(VENDOR, key=options.api_key, endpoint=options.endpoint, transport=transport)

    async def offers(self, need: Resources) -> Sequence[Offer]:
        available = {label for template in await self._templates() for label in _available_types(template)}
        regions = self._options.regions or REGIONS
        return [self._offer(kind, region, kind.name in available) for kind in TYPES for region in regions]

    async def create(self, order: MachineOrder) -> CloudMachine:
        script = await self._startup_script_id(order)
        template = self._options.template or await self._template_id(order.offer.name)
        request = self.native_request(order, template=template, script=script)
        return self._machine((await self._http.post("/v1/machines", request, patient=False))["data"])

    def native_request(
        self, order: MachineOrder, *, template: str = "(one that fits)", script: str = "(made before)"
    ) -> dict[str, Any]:
        """Return the launch request that `create` sends.

        `template` and `script` are ids at Paperspace. Without them, the request is for display only and
        contains placeholders.
        """
        request = {
            "name": order.name,
            "machineType": order.offer.name,
            "templateId": template,
            "region": order.offer.region,
            "diskSize": self._options.disk_gib,
            "publicIpType": "dynamic",
            "startupScriptId": script,
            "startOnCreate": True,
            "emailPassword": False,
            "autoSnapshotEnabled": False,
            "takeInitialSnapshot": False,
            "autoShutdownEnabled": True,
            "autoShutdownForce": True,
            "autoShutdownTimeout": shutdown_hours(order.max_life_s),
        }
        return request | ({"networkId": self._options.network} if self._options.network else {})

    async def native_requests(self, order: MachineOrder) -> Sequence[NativeRequest]:
        template = self._options.template or await self._template_id(order.offer.name)
        script = "(the id of the startup script)"
        return [
            self._http.show_post("/v1/startup-scripts", _script_request(order)),
            self._http.show_post(
                "/v1/machines", self.native_request(order, template=template, script=script)
            ),
        ]

    async def machines(self) -> Sequence[CloudMachine]:
        return [self._machine(one) for one in await self._list("/v1/machines") if _is_ours(one)]

    async def destroy(self, machine: CloudMachine) -> None:
        await self._http.delete(f"/v1/machines/{machine.id}")
        for script in await self._list("/v1/startup-scripts", name=machine.name):
            if script["name"] == machine.name and set(script["assignedMachineIds"]) <= {machine.id}:
                await self._http.delete(f"/v1/startup-scripts/{script['id']}")

    async def check(self) -> AccountStatus:
        try:
            session = await self._http.get("/v1/auth/session")
        except LaunchRefused as error:
            return AccountStatus(valid=False, message=str(error))
        if not session or not session.get("user"):
            return AccountStatus(
                valid=False,
                message="Paperspace does not know this API key; check the backend's `api_key` or the variable "
                "PAPERSPACE_API_KEY",
            )
        return AccountStatus(valid=True, message=f"the key of {session['user']['email']} works")

    async def leftovers(self) -> Sequence[Leftover]:
        listed = await self._list("/v1/startup-scripts")
        return [Leftover(kind="script", id=s["id"], name=s["name"]) for s in listed if _is_ours(s)]

    async def remove(self, leftover: Leftover) -> None:
        await self._http.delete(f"/v1/startup-scripts/{leftover.id}")

    async def host_keys(self, machine: CloudMachine) -> Sequence[str]:
        return ()

    async def close(self) -> None:
        await self._http.close()

    async def _startup_script_id(self, order: MachineOrder) -> str:
        for script in await self._list("/v1/startup-scripts", name=order.name):
            if script["name"] == order.name:
                return str(script["id"])
        return str((await self._http.post("/v1/startup-scripts", _script_request(order)))["id"])

    async def _templates(self) -> list[dict[str, Any]]:
        return [t for t in await self._list("/v1/os-templates") if "Ubuntu" in t["operatingSystemLabel"]]

    async def _template_id(self, kind: str) -> str:
        fitting = [t for t in await self._templates() if kind in _available_types(t)]
        if not fitting:
            raise LaunchRefused(
                f"Paperspace has no Ubuntu template for machines of the type {kind}",
                hint="Set the option `template` of the backend to the id of a template.",
            )
        return str(max(fitting, key=lambda template: template["operatingSystemLabel"])["id"])

    async def _list(self, path: str, **params: str) -> list[dict[str, Any]]:
        page = await self._http.get(path, limit=120, **params)
        items = list(page["items"])
        while page["hasMore"]:
            page = await self._http.get(path, limit=120, after=page["nextPage"], **params)
            items += page["items"]
        return items

    def _machine(self, one: dict[str, Any]) -> CloudMachine:
        return CloudMachine(
            id=one["id"],
            name=one["name"],
            power=PowerState.ENDED if one.get("dtDeleted") else POWER.get(one["state"], PowerState.STARTING),
            region=one["region"],
            address=one.get("publicIp") or "",
            port=self._options.ssh_port,
            detail=one["state"],
            started_at_ms=unix_ms(one.get("dtCreated")),
            ended_at_ms=unix_ms(one.get("dtDeleted")),
        )

    def _offer(self, kind: PaperspaceType, region: str, available: bool) -> Offer:
        return Offer(
            backend="",
            name=kind.name,
            region=region,
            gpu_kind=kind.gpu_kind,
            gpu_count=kind.gpu_count,
            gpu_memory_gib=kind.gpu_memory_gib,
            cpus=kind.cpus,
            memory_gib=kind.memory_gib,
            disk_gib=self._options.disk_gib,
            price_microusd_per_hour=kind.microusd_per_hour,
            free=None if available else 0,
            wait_reason="" if available else f"Paperspace has no {kind.name} free",
            max_run_s=WEEK_H * HOUR_S,
            self_expires=self.self_expires,
            billing=BY_THE_HOUR,
        )


def shutdown_hours(max_life_s: float | None) -> int:
    """Return the auto-shutdown time in hours for a lifetime in seconds: rounded up, from one hour to a week."""
    return min(max(math.ceil((max_life_s or WEEK_H * HOUR_S) / HOUR_S), 1), WEEK_H)


def _is_ours(resource: dict[str, Any]) -> bool:
    return (resource.get("name") or "").startswith(NAME_PREFIX)


def _available_types(template: dict[str, Any]) -> Iterable[str]:
    return [t["machineTypeLabel"] for t in template["availableMachineTypes"] if t["isAvailable"]]


def _script_request(order: MachineOrder) -> dict[str, Any]:
    text = SCRIPT.format(public_key=order.public_key, startup=order.startup_script)
    return {"name": order.name, "script": text, "isRunOnce": True}


Options = PaperspaceOptions  # the registry finds the options by this name


async def connect(options: PaperspaceOptions) -> Provider:
    return PaperspaceProvider(options)
