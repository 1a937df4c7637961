"""The VM provider Lambda, on demand (docs-api.lambda.ai/api/cloud, docs.lambda.ai/public-cloud/billing).

The API has no client token and no spot machines, and several machines may have the same name. A launch needs
the name of one SSH key that exists in the account, so the attempt's key is added under the attempt's name and
deleted with the machine. Lambda allows one launch about every 12 seconds, so launches wait for each other in
this process. Only `terminate` ends the billing; a machine that shuts itself down is still billed. Billing is
per minute.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

import httpx
from pydantic import Field, SecretStr

from anygpu.backends.contract import AccountStatus, Leftover, NativeRequest
from anygpu.backends.vm.http import NAME_PREFIX, VendorClient, VendorInfo, parse_gpus
from anygpu.backends.vm.options import VmOptions
from anygpu.backends.vm.provider import CloudMachine, MachineOrder, PowerState, Provider, ResourceNotFound
from anygpu.errors import LaunchRefused
from anygpu.events.offers import Billing, Offer
from anygpu.spec.sections import Resources

VENDOR = VendorInfo(
    name="Lambda",
    base_url="https://cloud.lambda.ai",
    variable="LAMBDA_API_KEY",
    no_capacity=("insufficient-capacity",),
)
BY_THE_MINUTE = Billing(step_s=60)
MICROUSD_PER_CENT = 10_000
POWER = {
    "booting": PowerState.STARTING,
    "active": PowerState.RUNNING,
    "unhealthy": PowerState.RUNNING,  # such a machine is billed and may still answer over SSH
    "terminating": PowerState.ENDING,
    "terminated": PowerState.ENDED,
    "preempted": PowerState.ENDED,
}


class LambdaOptions(VmOptions):
    """Options of a Lambda backend."""

    api_key: SecretStr | None = Field(None, description="API key; default: the variable LAMBDA_API_KEY")
    launch_every_s: float = Field(
        12, ge=0, description="seconds between two launches; Lambda refuses faster ones"
    )


class LambdaProvider:
    """Creates, lists and destroys machines of Lambda's on-demand cloud."""

    self_expires = "none"
    idempotent = False
    listing_lag_s = 10.0
    notices = ""

    def __init__(
        self,
        options: LambdaOptions,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._options, self._clock, self._sleep = options, clock, sleep
        self.user = options.user or "ubuntu"
        self._http = VendorClient(VENDOR, key=options.api_key, endpoint=options.endpoint, transport=transport)
        self._launching = asyncio.Lock()
        self._next_launch = 0.0

    async def offers(self, need: Resources) -> Sequence[Offer]:
        kinds = (await self._http.get("/api/v1/instance-types"))["data"]
        return [offer for kind in kinds.values() for offer in self._offers(kind)]

    async def create(self, order: MachineOrder) -> CloudMachine:
        await self._add_key(order)
        async with self._launching:
            await self._sleep(max(0, self._next_launch - self._clock()))
            self._next_launch = self._clock() + self._options.launch_every_s
            answer = await self._http.post(
                "/api/v1/instance-operations/launch", self.native_request(order), patient=False
            )
        (machine_id,) = answer["data"]["instance_ids"]
        return CloudMachine(
            id=machine_id, name=order.name, power=PowerState.STARTING, region=order.offer.region
        )

    def native_request(self, order: MachineOrder) -> dict[str, Any]:
        """Return the exact launch request that `create` sends."""
        return {
            "region_name": order.offer.region,
            "instance_type_name": order.offer.name,
            "ssh_key_names": [order.name],
            "name": order.name,
            "user_data": order.startup_script,
        }

    async def native_requests(self, order: MachineOrder) -> Sequence[NativeRequest]:
        return [
            self._http.show_post("/api/v1/ssh-keys", _key_request(order)),
            self._http.show_post("/api/v1/instance-operations/launch", self.native_request(order)),
        ]

    async def machines(self) -> Sequence[CloudMachine]:
        listed = (await self._http.get("/api/v1/instances"))["data"]
        return [self._machine(one) for one in listed if _is_ours(one)]

    async def destroy(self, machine: CloudMachine) -> None:
        with suppress(ResourceNotFound):  # its key may still exist
            await self._http.post("/api/v1/instance-operations/terminate", {"instance_ids": [machine.id]})
        for key in await self._keys():
            if key["name"] == machine.name:
                await self._delete_key(key["id"])

    async def check(self) -> AccountStatus:
        try:
            listed = (await self._http.get("/api/v1/instances"))["data"]
        except LaunchRefused as error:
            return AccountStatus(valid=False, message=str(error))
        return AccountStatus(valid=True, message=f"the key works; {len(listed)} machines in the account")

    async def leftovers(self) -> Sequence[Leftover]:
        return [Leftover(kind="key", id=key["id"], name=key["name"]) for key in await self._keys()]

    async def remove(self, leftover: Leftover) -> None:
        await self._delete_key(leftover.id)

    async def host_keys(self, machine: CloudMachine) -> Sequence[str]:
        return ()

    async def close(self) -> None:
        await self._http.close()

    def _offers(self, listed: dict[str, Any]) -> Iterable[Offer]:
        kind, wanted = listed["instance_type"], self._options.regions
        places = [place["name"] for place in listed["regions_with_capacity_available"]]
        open_now = [place for place in places if not wanted or place in wanted]
        if not open_now:
            closed = f"Lambda has no {kind['name']} free"
            return [_offer(kind, region=wanted[0] if wanted else "", free=0, wait_reason=closed)]
        return [_offer(kind, region=place) for place in open_now]

    def _machine(self, one: dict[str, Any]) -> CloudMachine:
        status = one["status"]
        return CloudMachine(
            id=one["id"],
            name=one["name"],
            power=POWER.get(status, PowerState.STARTING),
            region=one["region"]["name"],
            address=one.get("ip") or "",
            port=self._options.ssh_port,
            detail=status,
            preempted=status == "preempted",
        )

    async def _keys(self) -> list[dict[str, Any]]:
        return [key for key in (await self._http.get("/api/v1/ssh-keys"))["data"] if _is_ours(key)]

    async def _add_key(self, order: MachineOrder) -> None:
        if all(key["name"] != order.name for key in await self._keys()):
            await self._http.post("/api/v1/ssh-keys", _key_request(order))

    async def _delete_key(self, key_id: str) -> None:
        try:
            await self._http.delete(f"/api/v1/ssh-keys/{key_id}")
        except LaunchRefused as error:
            if error.details.get("vendor_code") != "ssh-keys/key-in-use":  # its machine is still ending
                raise


def _is_ours(resource: dict[str, Any]) -> bool:
    return (resource.get("name") or "").startswith(NAME_PREFIX)


def _offer(kind: dict[str, Any], *, region: str, free: int | None = None, wait_reason: str = "") -> Offer:
    _, gpu_kind, gpu_memory_gib = parse_gpus(kind.get("gpu_description") or kind["description"])
    specs = kind["specs"]
    return Offer(
        backend="",
        name=kind["name"],
        region=region,
        gpu_kind=gpu_kind,
        gpu_count=specs.get("gpus", 0),
        gpu_memory_gib=gpu_memory_gib,
        cpus=specs["vcpus"],
        memory_gib=specs["memory_gib"],
        disk_gib=specs["storage_gib"],
        price_microusd_per_hour=kind["price_cents_per_hour"] * MICROUSD_PER_CENT,
        free=free,
        wait_reason=wait_reason,
        self_expires=LambdaProvider.self_expires,
        billing=BY_THE_MINUTE,
    )


def _key_request(order: MachineOrder) -> dict[str, Any]:
    return {"name": order.name, "public_key": order.public_key}


Options = LambdaOptions  # the registry finds the options by this name


async def connect(options: LambdaOptions) -> Provider:
    return LambdaProvider(options)
