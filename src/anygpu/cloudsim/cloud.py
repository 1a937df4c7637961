"""The simulated cloud itself: everything the dialects sell, in no vendor's words.

A dialect's handler says who calls and what for (`admit`), does its work through the verbs below, and lets a
`Refusal` rise to be put in the vendor's words. All times are by `clock`.
"""

import hashlib
import itertools
import secrets
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

from anygpu.cloudsim.billing import BillingEntry, CloudBilling
from anygpu.cloudsim.clock import SimClock
from anygpu.cloudsim.errors import CloudError, ErrorReason
from anygpu.cloudsim.faults import FaultContext, FaultKind, FaultRegistry
from anygpu.cloudsim.instance import Instance, InstanceOrder, InstanceState, MachineRuntime, StopCause
from anygpu.cloudsim.lifecycle import CloudTiming, InstanceLifecycle
from anygpu.cloudsim.market import SimSpotMarket
from anygpu.cloudsim.resources import AddressStore, DiskStore, KeyStore, PublicAddress, SimDisk
from anygpu.cloudsim.vendor import MachineType, SimVendor


@dataclass(slots=True)
class SimulatedCall:
    """The request being answered; the HTTP edge reads it to know which answers to lose."""

    vendor: str = ""
    operations: tuple[str, ...] = ()


CURRENT_CALL: ContextVar[SimulatedCall] = ContextVar("simulated_call")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityLimits:
    """How much there is. A capacity is named by type, or by type@zone; what is not named is unlimited."""

    capacity: Mapping[str, int] = field(default_factory=dict)
    vcpus: Mapping[str, int] = field(default_factory=dict)  # by vendor; else as the vendor has it


class Cloud:
    """Rents, lists and ends machines; keeps keys, addresses, disks, faults and the books."""

    def __init__(
        self,
        clock: SimClock,
        make_machine: Callable[[Instance], MachineRuntime],
        take_ip: Callable[[], str],
        *,
        market: SimSpotMarket | None = None,
        timing: CloudTiming | None = None,
        limits: CapacityLimits | None = None,
        seed: int | None = None,
        ssh_port: int = 22,
    ) -> None:
        self.clock = clock
        self.ssh_port = ssh_port  # of every machine
        self.market = market or SimSpotMarket()
        self.limits = limits or CapacityLimits()
        self.faults = FaultRegistry(clock.now_ms)
        self.billing = CloudBilling(clock.now_ms)
        self.keys = KeyStore(clock.now_ms)
        self.addresses = AddressStore(clock.now_ms, take_ip, self.new_id)
        self.disks = DiskStore(clock.now_ms, self.new_id)
        self.lifecycle = InstanceLifecycle(self, make_machine, timing or CloudTiming(), seed)
        self.credentials: dict[str, dict[str, str]] = {}  # added to those the vendors know
        self.instances: dict[str, Instance] = {}
        self._by_token: dict[tuple[str, str, str], Instance] = {}
        self._salt = secrets.token_hex(8) if seed is None else str(seed)
        self._count = itertools.count(1)

    # Who may call

    def authorize(self, vendor: SimVendor, *operations: str, credential: str, region: str = "") -> None:
        """First thing in every handler. `operations`: the neutral name (launch, list, end, …), and the vendor's own."""
        if (call := CURRENT_CALL.get(None)) is not None:
            call.vendor, call.operations = vendor.name, operations
        context = FaultContext(vendor=vendor.name, operations=operations, region=region)
        if credential not in self.known_credentials(vendor) or self.faults.trigger(
            FaultKind.BAD_CREDENTIALS, context
        ):
            raise CloudError(
                ErrorReason.BAD_CREDENTIALS, "The credentials are not valid.", subject=credential
            )
        if self.faults.trigger(FaultKind.THROTTLE, context):
            raise CloudError(ErrorReason.THROTTLED, "Request limit exceeded.")

    def known_credentials(self, vendor: SimVendor) -> Mapping[str, str]:
        """Id -> secret; a vendor with mere tokens has them as ids."""
        return {**vendor.credentials, **self.credentials.get(vendor.name, {})}

    def new_id(self, prefix: str, digits: int = 17) -> str:
        """An id that looks random; with a seed, the same history gives the same ids."""
        text = f"{self._salt}:{prefix}:{next(self._count)}"
        return prefix + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()[:digits]

    # Machines

    def launch(self, order: InstanceOrder, *, id: str = "") -> Instance:
        """A new machine, which boots by itself; or the one this client token was used for."""
        token = (order.vendor.name, order.region, order.client_token)
        if order.client_token and token in self._by_token:
            return _check_same_request(self._by_token[token], order)
        machine_type = self._find_type(order)
        zone = self._choose_zone(order, machine_type)
        instance = Instance(
            id=id or self.new_id("i-"),
            order=order,
            type=machine_type,
            zone=zone,
            price_microusd_per_hour=self.price(machine_type, zone, spot=order.spot),
            created_at_ms=self.clock.now_ms(),
            internal_ip=self.addresses.take_ip(),
            tags=dict(order.tags),
        )
        self.instances[instance.id] = instance
        if order.client_token:
            self._by_token[token] = instance
        self.disks.create_root_disk(instance)
        self.lifecycle.start(instance)
        return instance

    def find_instance(self, vendor: SimVendor, id: str) -> Instance:
        """As it really is: no lag."""
        instance = self.instances.get(id)
        if instance is None or instance.vendor.name != vendor.name:
            raise CloudError(ErrorReason.NOT_FOUND, f"There is no machine {id}.", subject=id)
        return instance

    def list_instances(
        self, vendor: SimVendor, *, region: str = "", forget_s: float = 3600
    ) -> list[Instance]:
        """What the provider lists: lagging when that fault stands; ended machines until `forget_s` have passed."""
        context = FaultContext(vendor=vendor.name, operations=("list",), region=region)
        fault = self.faults.trigger(FaultKind.LISTING_LAG, context)
        seen_at_ms = self.clock.now_ms() - round(1000 * fault.seconds if fault else 0)
        return [
            _lagging_view(each, seen_at_ms)
            for each in self.instances.values()
            if each.vendor.name == vendor.name
            and region in ("", each.region)
            and (fault is None or each.created_at_ms <= seen_at_ms)
            and (each.ended_at_ms is None or each.ended_at_ms + 1000 * forget_s > seen_at_ms)
        ]

    def terminate(self, instance: Instance) -> None:
        """Through the API, by its customer. Twice is the same as once."""
        self.lifecycle.end(instance, StopCause.USER)

    def preempt(self, id: str, notice_s: float | None = None) -> None:
        """Take a machine back after its notice; None: the usual one."""
        self.lifecycle.preempt(self.instances[id], notice_s)

    # What things cost

    def price(self, machine_type: MachineType, zone: str, *, spot: bool) -> int:
        return (
            self.market.spot_price(machine_type, zone, self.clock.now_s())
            if spot
            else machine_type.price_microusd_per_hour
        )

    def has_capacity(self, vendor: SimVendor, machine_type: MachineType, zone: str, *, spot: bool) -> bool:
        """Whether the type's listing should show it as available."""
        remaining = [
            limit - self._count_active(vendor, machine_type, zone if "@" in name else "")
            for name, limit in self.limits.capacity.items()
            if name in (machine_type.name, f"{machine_type.name}@{zone}")
        ]
        up = not spot or self.market.is_available(machine_type, zone, self.clock.now_s())
        return up and all(number > 0 for number in remaining)

    def billing_entries(self, vendor: SimVendor | None = None) -> list[BillingEntry]:
        """The books."""
        entries = self.billing.entries(self.instances.values(), self.addresses.ever_allocated())
        return [entry for entry in entries if vendor is None or entry.vendor == vendor.name]

    # Addresses that are rented by themselves

    async def associate(self, address: PublicAddress, instance: Instance) -> None:
        """From now on the machine answers there."""
        if instance.state.is_ended:
            raise CloudError(
                ErrorReason.CONFLICT, f"The machine {instance.id} has ended.", subject=instance.id
            )
        address.instance = instance.id
        instance.address = address.ip
        if instance.machine is not None:
            await instance.machine.listen(address.ip)

    async def disassociate(self, address: PublicAddress) -> None:
        instance = self.instances.get(address.instance)
        address.instance = ""
        if instance is not None and instance.address == address.ip:
            instance.address = ""
            if instance.machine is not None:
                await instance.machine.stop_listening(address.ip)

    def disks_of(self, vendor: SimVendor) -> list[SimDisk]:
        return self.disks.all(vendor)

    # Inside

    def _find_type(self, order: InstanceOrder) -> MachineType:
        machine_type = order.vendor.find_type(order.type)
        if machine_type is None:
            raise CloudError(
                ErrorReason.INVALID, f"There is no machine type {order.type}.", subject=order.type
            )
        if order.region not in order.vendor.regions:
            raise CloudError(ErrorReason.INVALID, f"There is no region {order.region}.", subject=order.region)
        return machine_type

    def _choose_zone(self, order: InstanceOrder, machine_type: MachineType) -> str:
        """The zone that was asked for, or the first that has some; refuses for capacity and quota."""
        context = FaultContext(
            vendor=order.vendor.name,
            operations=("launch",),
            region=order.region,
            type=machine_type.name,
            spot=order.spot,
        )
        if self.faults.trigger(FaultKind.QUOTA, context) or self._exceeds_quota(order, machine_type):
            raise CloudError(
                ErrorReason.QUOTA, f"The limit of {order.vendor.name} is reached.", subject=machine_type.name
            )
        offered = not machine_type.regions or order.region in machine_type.regions
        zones = (order.zone,) if order.zone else order.vendor.zones(order.region)
        if offered and not self.faults.trigger(FaultKind.NO_CAPACITY, context):
            for zone in zones:
                if self.has_capacity(order.vendor, machine_type, zone, spot=order.spot):
                    return zone
        raise CloudError(
            ErrorReason.NO_CAPACITY,
            f"There is no {machine_type.name} in {order.region} now.",
            subject=machine_type.name,
        )

    def _exceeds_quota(self, order: InstanceOrder, machine_type: MachineType) -> bool:
        limit = self.limits.vcpus.get(order.vendor.name, order.vendor.vcpu_limit)
        used = sum(
            each.type.vcpus
            for each in self.instances.values()
            if each.vendor.name == order.vendor.name
            and each.region == order.region
            and each.order.spot == order.spot
            and each.state.is_active
        )
        return used + machine_type.vcpus > limit

    def _count_active(self, vendor: SimVendor, machine_type: MachineType, zone: str) -> int:
        return sum(
            each.state.is_active and each.type.name == machine_type.name and zone in ("", each.zone)
            for each in self.instances.values()
            if each.vendor.name == vendor.name
        )


def _check_same_request(instance: Instance, order: InstanceOrder) -> Instance:
    if instance.order.parameters != order.parameters:
        raise CloudError(
            ErrorReason.MISMATCH,
            "The client token was used with other parameters.",
            subject=order.client_token,
        )
    return instance


def _lagging_view(instance: Instance, seen_at_ms: int) -> Instance:
    """The instance as a list that lags shows it."""
    if instance.stopped_at_ms is not None and instance.stopped_at_ms > seen_at_ms:
        return replace(
            instance, state=InstanceState.RUNNING, cause=StopCause.NONE, stopped_at_ms=None, ended_at_ms=None
        )
    return instance
