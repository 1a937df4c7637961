"""The provider RunPod, through its REST API v2 (docs.runpod.io/api-reference-v2).

RunPod retires v1 in late 2026 (see the page `migrate-from-v1` of that reference). A pod is a container with
an SSH server on a mapped port. RunPod's images start the SSH server if the variable `PUBLIC_KEY` is set; the
port `22/tcp` must be requested. v2 has no interruptible pods and no idempotency key, and several pods may
have the same name. A pod has no user data, so the startup script cannot end it; the option `unattended` must
allow such machines. Billing is per second, and the API reports the metered cost. The balance is available
only through RunPod's GraphQL API.
"""

from collections.abc import Iterable, Sequence
from typing import Any

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
    name="RunPod",
    base_url="https://api.runpod.io",
    variable="RUNPOD_API_KEY",
    no_capacity=("no longer any instances available", "no resources"),
)
IMAGE = "runpod/pytorch:2.8.0-py3.11-cuda12.8.1-cudnn-devel-ubuntu22.04"
BALANCE = "query { myself { email clientBalance } }"
BY_THE_SECOND = Billing(step_s=1)
POWER = {
    "PROVISIONING": PowerState.STARTING,
    "STARTING": PowerState.STARTING,
    "RUNNING": PowerState.RUNNING,
    "EXITED": PowerState.STOPPED,
    "ERROR": PowerState.STOPPED,
    "TERMINATED": PowerState.ENDED,
}


class RunPodOptions(VmOptions):
    """Options of a RunPod backend. Its regions are RunPod's data centers, such as 'US-TX-3'."""

    api_key: SecretStr | None = Field(None, description="API key; default: the variable RUNPOD_API_KEY")
    image: str = Field(IMAGE, description="container image; must start an SSH server that accepts PUBLIC_KEY")
    cloud: str = Field(
        "SECURE", pattern="SECURE|COMMUNITY", description="type of data centers: SECURE or COMMUNITY"
    )
    disk_gib: int = Field(50, ge=1, description="size of a pod's disk, which is deleted with the pod")


class RunPodProvider:
    """Creates, lists and destroys RunPod pods."""

    self_expires = "none"
    idempotent = False
    listing_lag_s = 10.0
    notices = ""

    def __init__(self, options: RunPodOptions, transport: httpx.AsyncBaseTransport | None = None) -> None:
        self._options = options
        self.user = options.user or "root"
        self._http = VendorClient(VENDOR, key=options.api_key, endpoint=options.endpoint, transport=transport)

    async def offers(self, need: Resources) -> Sequence[Offer]:
        count = max(need.gpu.count, 1) if need.gpu else 1
        params = {"include": "AVAILABILITY", "product": "POD", "count": count, "cloud": self._options.cloud}
        kinds = (await self._http.get("/v2/catalog/gpus", **params))["gpus"]
        return [offer for kind in kinds for offer in self._offers(kind, count)]

    async def create(self, order: MachineOrder) -> CloudMachine:
        return self._machine(await self._http.post("/v2/pods", self.native_request(order), patient=False))

    def native_request(self, order: MachineOrder) -> dict[str, Any]:
        """Return the exact launch request that `create` sends."""
        request = {
            "name": order.name,
            "image": self._options.image,
            "gpu": {"id": order.offer.name, "count": order.offer.gpu_count},
            "cloud": self._options.cloud,
            "disk": self._options.disk_gib,
            "ports": ["22/tcp"],
            "env": {"PUBLIC_KEY": order.public_key},
        }
        return request | ({"dataCenterIds": [order.offer.region]} if order.offer.region else {})

    async def native_requests(self, order: MachineOrder) -> Sequence[NativeRequest]:
        return [self._http.show_post("/v2/pods", self.native_request(order))]

    async def machines(self) -> Sequence[CloudMachine]:
        listed = (await self._http.get("/v2/pods"))["pods"]
        return [self._machine(pod) for pod in listed if pod["name"].startswith(NAME_PREFIX)]

    async def destroy(self, machine: CloudMachine) -> None:
        await self._http.delete(f"/v2/pods/{machine.id}")

    async def check(self) -> AccountStatus:
        try:
            pods = (await self._http.get("/v2/pods"))["pods"]
            myself = ((await self._http.post("/graphql", {"query": BALANCE})).get("data") or {}).get("myself")
        except LaunchRefused as error:
            return AccountStatus(valid=False, message=str(error))
        balance = round(myself["clientBalance"] * 1_000_000) if myself else None
        return AccountStatus(
            valid=True, message=f"the key works; {len(pods)} pods in the account", balance_microusd=balance
        )

    async def metered_microusd(self, machine: CloudMachine) -> int | None:
        records = (await self._http.get("/v2/billing/pods", podId=machine.id, bucketSize="hour"))["records"]
        return round(sum(record["totalAmount"] for record in records) * 1_000_000) if records else None

    async def leftovers(self) -> Sequence[Leftover]:
        return ()

    async def remove(self, leftover: Leftover) -> None:
        """Do nothing: a deleted pod leaves no resources behind."""

    async def host_keys(self, machine: CloudMachine) -> Sequence[str]:
        return ()

    async def close(self) -> None:
        await self._http.close()

    def _offers(self, kind: dict[str, Any], count: int) -> Iterable[Offer]:
        if count > kind["maxCount"][self._options.cloud.lower()]:
            return []
        wanted = self._options.regions
        stock = [dc["id"] for dc in kind.get("dataCenters", ()) if dc["availability"] != "NONE"]
        open_now = [place for place in stock if not wanted or place in wanted]
        if not open_now:
            return [self._offer(kind, count, wanted[0] if wanted else "", free=0)]
        return [self._offer(kind, count, place) for place in open_now]

    def _offer(self, kind: dict[str, Any], count: int, region: str, free: int | None = None) -> Offer:
        dollars = kind["price"][self._options.cloud.lower()] * count
        return Offer(
            backend="",
            name=kind["id"],
            region=region,
            gpu_kind=kind["name"],
            gpu_count=count,
            gpu_memory_gib=kind["memory"],
            disk_gib=self._options.disk_gib,
            price_microusd_per_hour=round(dollars * 1_000_000),
            free=free,
            wait_reason="" if free is None else f"RunPod has no {count} x {kind['name']} free",
            self_expires=self.self_expires,
            billing=BY_THE_SECOND,
            shared=True,  # a pod is a container on a host with other customers' containers
        )

    def _machine(self, pod: dict[str, Any]) -> CloudMachine:
        direct = (pod.get("ssh") or {}).get("direct") or {}
        return CloudMachine(
            id=pod["id"],
            name=pod["name"],
            power=POWER.get(pod["status"], PowerState.STARTING),
            region=pod.get("dataCenterId") or "",
            address=direct.get("host", ""),
            port=direct.get("port", self._options.ssh_port),
            detail=pod["status"].lower(),
            started_at_ms=unix_ms(pod.get("createdAt")),
        )


Options = RunPodOptions  # the registry finds the options by this name


async def connect(options: RunPodOptions) -> Provider:
    return RunPodProvider(options)
