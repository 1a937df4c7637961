"""The VM provider CanopyWave (canopywave.com/docs/account/quick-start).

A launch needs a password. It is random and not stored, because the server logs in with the attempt's SSH key.
CanopyWave has no tags and no client token, so machines are recognised by their unique `name`.

A machine has no public address until one is allocated and associated with it. `machines` does that whenever
it lists the machines, because listings are repeated anyway. An address that is already associated with the
machine, or was allocated for it before, is used first, so that a machine never gets two. A machine that
another server created gets its address from that server; only if it has none after `TAKE_OVER_S` does this
process assign one. An address is released before its machine is destroyed, because afterwards the list of
addresses does not show to which machine it belonged.
"""

import asyncio
import re
import secrets
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import httpx
from pydantic import Field, SecretStr

from anygpu.backends.contract import AccountStatus, Leftover, NativeRequest
from anygpu.backends.vm.http import NAME_PREFIX, VendorClient, VendorInfo, parse_gpus, unix_ms
from anygpu.backends.vm.options import VmOptions
from anygpu.backends.vm.provider import (
    CloudMachine,
    MachineOrder,
    OutcomeUnknown,
    PowerState,
    Provider,
    ResourceNotFound,
)
from anygpu.errors import AnygpuError, LaunchRefused
from anygpu.events.offers import Billing, Offer
from anygpu.spec.sections import Resources

VENDOR = VendorInfo(
    name="CanopyWave",
    base_url="https://cloud-api.canopywave.io",
    variable="CANOPYWAVE_API_KEY",
    no_capacity=("no valid host", "not enough", "capacity", "out of stock", "unavailable"),
)
BY_THE_HOUR = Billing(step_s=3600)
MICROUSD_PER_CENT = 10_000
POWER = {
    "build": PowerState.STARTING,
    "active": PowerState.RUNNING,
    "reboot": PowerState.RUNNING,
    "shutoff": PowerState.STOPPED,
    "stopped": PowerState.STOPPED,
    "paused": PowerState.STOPPED,
    "suspended": PowerState.STOPPED,
    "error": PowerState.STOPPED,
    "deleting": PowerState.ENDING,
    "deleted": PowerState.ENDED,
    "terminated": PowerState.ENDED,
}
ADDRESS_FIELDS = ("publicIp", "ip", "floating_ip", "public_ip", "accessIPv4")
SPECS = re.compile(r"(?P<cpus>[\d.]+) cores, (?P<memory>[\d.]+) GB RAM, (?P<disk>[\d.]+) (?P<unit>[GT])B")
FAILURES = (AnygpuError, OutcomeUnknown)
TAKE_OVER_S = 60.0


class CanopyWaveOptions(VmOptions):
    """Options of a CanopyWave backend."""

    api_key: SecretStr | None = Field(
        None, description="API key; default: the environment variable CANOPYWAVE_API_KEY"
    )
    project: str = Field("", description="project to rent in; empty: the only project of the API key")
    image: str = Field("", description="image of the machines; empty: Ubuntu 22.04")
    own_project: bool = Field(
        False,
        description="only this server uses the project, so it may use and release addresses that belong to "
        "no machine",
    )


class CanopyWaveProvider:
    """Creates, lists and destroys CanopyWave machines and their public addresses."""

    self_expires = "none"
    idempotent = False
    listing_lag_s = 10.0
    notices = ""

    def __init__(
        self,
        options: CanopyWaveOptions,
        transport: httpx.AsyncBaseTransport | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._options, self._clock = options, clock
        self.user = options.user or "ubuntu"
        self._http = VendorClient(VENDOR, key=options.api_key, endpoint=options.endpoint, transport=transport)
        self._address_lock = asyncio.Lock()
        self._allocated: dict[str, dict[str, Any]] = {}  # machine name -> the address allocated for it
        self._addresses_before: dict[
            str, set[str]
        ] = {}  # machine name -> addresses that existed before its own
        self._ending: set[str] = set()  # machines that must not get an address any more
        self._assign_at: dict[str, float] = {}  # when to assign an address to a machine
        self._project = options.project

    async def offers(self, need: Resources) -> Sequence[Offer]:
        project = await self.project()
        flavors = await self._list("/instance-types", project=project)
        return [_offer(flavor, region) for region in await self._regions() for flavor in flavors]

    async def create(self, order: MachineOrder) -> CloudMachine:
        where = {"region": order.offer.region, "project": await self.project()}
        if all(key["name"] != order.name for key in await self._keys(where)):
            await self._http.post("/api/v1/ssh-keys", _key_request(order, where))
        request = self.native_request(order, password=secrets.token_urlsafe(24))
        answer = await self._http.post("/api/v1/instance-operations/launch", request, patient=False)
        made_id = answer["data"]["id"]
        self._assign_at[made_id] = self._clock()
        return CloudMachine(id=made_id, name=order.name, power=PowerState.STARTING, region=order.offer.region)

    def native_request(self, order: MachineOrder, password: str = "(random)") -> dict[str, Any]:  # noqa: S107
        """Return the body of the launch request. The default password is a placeholder for display."""
        ubuntu = "GPU-Ubuntu.22.04" if order.offer.gpu_count else "CPU-Ubuntu.22.04"
        return {
            "region": order.offer.region,
            "project": self._project,
            "name": order.name,
            "flavor": order.offer.name,
            "image": self._options.image or ubuntu,
            "password": password,
            "keypair": order.name,
        }

    async def native_requests(self, order: MachineOrder) -> Sequence[NativeRequest]:
        where = {"region": order.offer.region, "project": await self.project()}
        return [
            self._http.show_post("/api/v1/ssh-keys", _key_request(order, where)),
            self._http.show_post("/api/v1/instance-operations/launch", self.native_request(order)),
        ]

    async def machines(self) -> Sequence[CloudMachine]:
        machines = await self._list_machines()
        async with self._address_lock:
            waiting = {machine.id: machine for machine in self._without_address(machines)}
            settled = await asyncio.gather(*(self._with_address(machine) for machine in waiting.values()))
        changed = {machine.id: machine for machine in settled}
        return [changed.get(machine.id, machine) for machine in machines]

    async def destroy(self, machine: CloudMachine) -> None:
        self._ending.add(machine.id)
        where = {"region": machine.region, "project": await self.project()}
        async with self._address_lock:
            await self._release_all(machine, where)
        with suppress(ResourceNotFound):
            await self._http.post("/api/v1/instance-operations/terminate", {**where, "id": machine.id})
        await self._http.delete(f"/api/v1/ssh-keys/{machine.name}", **where)

    async def check(self) -> AccountStatus:
        try:
            projects = await self._list("/projects")
            project = await self.project()
        except LaunchRefused as error:
            return AccountStatus(valid=False, message=str(error))
        if project not in projects:
            return AccountStatus(
                valid=False,
                message=f"the API key has access to {', '.join(projects)}, not to {project}; change the option "
                "`project` of the backend",
            )
        idle = [a["ip"] for r in await self._regions() for a in await self._addresses(r) if not a["server"]]
        billing = f"; billed addresses without a machine: {', '.join(idle)}" if idle else ""
        return AccountStatus(valid=True, message=f"the key works; project {project}{billing}")

    async def leftovers(self) -> Sequence[Leftover]:
        leftovers: list[Leftover] = []
        for region in await self._regions():
            where = {"region": region, "project": await self.project()}
            leftovers += [
                Leftover(kind="key", id=k["name"], name=k["name"], region=region)
                for k in await self._keys(where)
            ]
            leftovers += self._leftover_addresses(await self._addresses(region), region)
        return leftovers

    async def remove(self, leftover: Leftover) -> None:
        where = {"region": leftover.region, "project": await self.project()}
        if leftover.kind == "address":
            await self._release(leftover.id, where)
        else:
            await self._http.delete(f"/api/v1/ssh-keys/{leftover.id}", **where)

    async def host_keys(self, machine: CloudMachine) -> Sequence[str]:
        return ()

    async def close(self) -> None:
        await self._http.close()

    async def project(self) -> str:
        """Return the configured project, or else the only project of the API key.

        Raise `LaunchRefused` if no project is configured and the key does not have exactly one.
        """
        if not self._project:
            projects = await self._list("/projects")
            if len(projects) != 1:
                raise LaunchRefused(
                    f"CanopyWave needs a project, and the API key has access to {', '.join(projects) or 'none'}",
                    hint="Set the option `project` of the backend to one project of the key.",
                )
            self._project = projects[0]
        return self._project

    async def _list_machines(self) -> list[CloudMachine]:
        listed = await self._list("/instances", project=await self.project())
        return [self._machine(one) for one in listed if (one.get("name") or "").startswith(NAME_PREFIX)]

    def _without_address(self, machines: Sequence[CloudMachine]) -> Iterable[CloudMachine]:
        """Return the running machines to which this process must now assign a public address.

        At most one machine per name is returned, because duplicates are destroyed.
        """
        alive = [m for m in machines if m.power is PowerState.RUNNING and m.id not in self._ending]
        first = {
            m.name: m for m in sorted(alive, key=lambda m: (not m.address, m.started_at_ms or 0, m.id))[::-1]
        }
        bare = [machine for machine in first.values() if not machine.address]
        return [
            m for m in bare if self._assign_at.setdefault(m.id, self._clock() + TAKE_OVER_S) <= self._clock()
        ]

    async def _with_address(self, machine: CloudMachine) -> CloudMachine:
        """Assign a public address to the machine, and return the machine with it.

        If that fails, return the machine with the reason in `detail`; the next listing tries again.
        """
        try:
            return replace(machine, address=await self._assign_address(machine))
        except FAILURES as error:
            return replace(machine, detail=f"no public address yet: {error}")

    async def _assign_address(self, machine: CloudMachine) -> str:
        where = {"region": machine.region, "project": await self.project()}
        addresses = await self._addresses(machine.region)
        associated = next((a for a in addresses if a["server"] == machine.name), None)
        if associated:
            return str(associated["ip"])
        address = self._allocated.get(machine.name) or self._find_unclaimed(machine.name, addresses)
        if not address:
            self._addresses_before[machine.name] = {a["id"] for a in addresses}
            address = (await self._http.post("/api/v1/ips", where))["data"]
        self._allocated[machine.name] = address
        body = {**where, "instanceId": machine.id}
        await self._http.post(f"/api/v1/ips/{address['id']}/associate", body)
        return str(address["ip"])

    def _find_unclaimed(self, name: str, addresses: Iterable[dict[str, Any]]) -> dict[str, Any] | None:
        """Return an address that was allocated for machine `name`, or None.

        Used when the answer to the allocation was lost. With the option `own_project`, any address without a
        machine is returned.
        """
        taken = {address["id"] for address in self._allocated.values()}
        before, own = self._addresses_before.get(name), self._options.own_project
        free = (a for a in addresses if not a["server"] and a["id"] not in taken)
        return next((a for a in free if own or (before is not None and a["id"] not in before)), None)

    async def _release_all(self, machine: CloudMachine, where: dict[str, str]) -> None:
        has_duplicates = any(
            m.name == machine.name and m.id != machine.id for m in await self._list_machines()
        )
        addresses = await self._addresses(machine.region)
        mine = [
            a
            for a in addresses
            if (a["ip"] == machine.address if has_duplicates else a["server"] == machine.name)
        ]
        made = self._allocated.get(machine.name)
        if not made and machine.name in self._addresses_before:
            made = self._find_unclaimed(machine.name, addresses)
        for address_id in {a["id"] for a in [*mine, *([made] if made and not has_duplicates else [])]}:
            await self._release(address_id, where)
        self._allocated.pop(machine.name, None)

    async def _release(self, address_id: str, where: dict[str, str]) -> None:
        """Release an address, in one request if the API allows it.

        An address that was disassociated first, but not released, no longer shows to which machine it
        belonged.
        """
        try:
            await self._http.delete(f"/api/v1/ips/{address_id}", **where)
        except FAILURES:
            await self._http.delete(f"/api/v1/ips/{address_id}/disassociate", **where)
            await self._http.delete(f"/api/v1/ips/{address_id}", **where)

    def _leftover_addresses(self, addresses: Iterable[dict[str, Any]], region: str) -> list[Leftover]:
        allocated = {address["id"]: name for name, address in self._allocated.items()}
        named = [(a["id"], a["server"] or allocated.get(a["id"], "")) for a in addresses]
        return [
            Leftover(kind="address", id=address_id, name=name, region=region)
            for address_id, name in named
            if name.startswith(NAME_PREFIX) or (not name and self._options.own_project)
        ]

    def _machine(self, one: dict[str, Any]) -> CloudMachine:
        status = one["status"].lower()
        return CloudMachine(
            id=one["id"],
            name=one["name"],
            power=POWER.get(status, PowerState.STARTING),
            region=one["region"],
            address=public_address(one),
            port=self._options.ssh_port,
            detail=status,
            started_at_ms=unix_ms(one.get("launchedAt")),
        )

    async def _addresses(self, region: str) -> list[dict[str, Any]]:
        return await self._list("/ips", region=region, project=await self.project())

    async def _keys(self, where: dict[str, str]) -> list[dict[str, Any]]:
        listed = [one.get("keypair", one) for one in await self._list("/ssh-keys", **where)]
        return [key for key in listed if key["name"].startswith(NAME_PREFIX)]

    async def _regions(self) -> Sequence[str]:
        if self._options.regions:
            return self._options.regions
        listed = await self._list("/regions", project=await self.project())
        return [region if isinstance(region, str) else region["name"] for region in listed]

    async def _list(self, path: str, **params: str) -> list[Any]:
        return list((await self._http.get(f"/api/v1{path}", **params))["data"] or ())


def public_address(one: dict[str, Any]) -> str:
    """Return the public address of a machine from CanopyWave's list; "" if it has none.

    Lists use the field `publicIp`; older answers of the API use other fields.
    """
    direct = next((one[field] for field in ADDRESS_FIELDS if one.get(field)), "")
    if direct:
        return str(direct)
    every = [entry for entries in (one.get("addresses") or {}).values() for entry in entries]
    reachable = (e["addr"] for e in every if e.get("version", 4) == 4 and e.get("OS-EXT-IPS:type") != "fixed")
    return str(next(reachable, ""))


def _offer(flavor: dict[str, Any], region: str) -> Offer:
    gpu_count, gpu_kind, gpu_memory_gib = parse_gpus(flavor["name"])
    specs = SPECS.match(flavor["specs"])
    return Offer(
        backend="",
        name=flavor["flavor"],
        region=region,
        gpu_kind=gpu_kind,
        gpu_count=gpu_count,
        gpu_memory_gib=gpu_memory_gib,
        cpus=float(specs["cpus"]) if specs else 0,
        memory_gib=float(specs["memory"]) if specs else 0,
        disk_gib=float(specs["disk"]) * (1000 if specs["unit"] == "T" else 1) if specs else 0,
        price_microusd_per_hour=round(flavor["price"] * MICROUSD_PER_CENT),
        self_expires=CanopyWaveProvider.self_expires,
        billing=BY_THE_HOUR,
    )


def _key_request(order: MachineOrder, where: dict[str, str]) -> dict[str, str]:
    return {**where, "name": order.name, "publicKey": order.public_key}


Options = CanopyWaveOptions  # the registry finds the options by this name


async def connect(options: CanopyWaveOptions) -> Provider:
    return CanopyWaveProvider(options)
