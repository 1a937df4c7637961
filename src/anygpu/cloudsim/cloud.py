"""The simulated cloud, independent of any vendor: instances, keys, addresses, disks, faults and bills.

A handler of a vendor's API calls `authorize` first, then other methods of `Cloud`. If one of them raises a
`CloudError`, the handler answers with the vendor's own error response. All times are those of `clock`.
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
from anygpu.cloudsim.resources import AddressStore, DiskStore, KeyStore
from anygpu.cloudsim.vendor import SimMachineType, SimVendor


@dataclass(slots=True)
class SimulatedCall:
    """The provider and the operation of the current request. They decide whether a fault drops its response."""

    vendor: str = ""
    operations: tuple[str, ...] = ()


CURRENT_CALL: ContextVar[SimulatedCall] = ContextVar("simulated_call")


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityLimits:
    """How many machines can run, by machine type or `type@zone`, and how many vCPUs, by vendor.

    The number of machines of other types is not limited.
    """

    capacity: Mapping[str, int] = field(default_factory=dict)
    vcpus: Mapping[str, int] = field(default_factory=dict)  # by vendor; default: the vendor's own limit


class Cloud:
    """The state and operations of the cloud: instances, keys, addresses, disks, faults and bills."""

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
        self.ssh_port = ssh_port  # the SSH port of all machines
        self.market = market or SimSpotMarket()
        self.limits = limits or CapacityLimits()
        self.faults = FaultRegistry(clock.now_ms)
        self.billing = CloudBilling(clock.now_ms)
        self.keys = KeyStore(clock.now_ms)
        self.addresses = AddressStore(clock.now_ms, take_ip, self.new_id)
        self.disks = DiskStore(clock.now_ms, self.new_id)
        self.instances: dict[str, Instance] = {}
        self.lifecycle = InstanceLifecycle(
            clock,
            self.instances,
            self.addresses,
            self.disks,
            self.faults,
            self.market,
            make_machine,
            timing or CloudTiming(),
        )
        self._by_token: dict[tuple[str, str, str], Instance] = {}
        self._salt = secrets.token_hex(8) if seed is None else str(seed)
        self._count = itertools.count(1)

    # Authorization

    def authorize(self, vendor: SimVendor, *operations: str, credential: str, region: str = "") -> None:
        """Raise CloudError if the credential is not valid or the call is throttled.

        Every handler calls this method first. `operations` are the names of the call that faults can refer
        to: the name common to all vendors (launch, list, …) and the vendor's own name.
        """
        if (call := CURRENT_CALL.get(None)) is not None:
            call.vendor, call.operations = vendor.name, operations
        context = FaultContext(vendor=vendor.name, operations=operations, region=region)
        known = credential in vendor.credentials
        if not known or self.faults.trigger(FaultKind.BAD_CREDENTIALS, context):
            raise CloudError(
                ErrorReason.BAD_CREDENTIALS,
                "The credentials of the request are not valid. Use those that `anygpu cloud-sim` printed.",
                subject=credential,
            )
        if self.faults.trigger(FaultKind.THROTTLE, context):
            raise CloudError(
                ErrorReason.THROTTLED,
                "Request limit exceeded: too many requests in a short time. Wait and try again.",
            )

    def new_id(self, prefix: str, digits: int = 17) -> str:
        """Return a new id of pseudorandom digits. If the simulator has a seed, the ids are reproducible."""
        text = f"{self._salt}:{prefix}:{next(self._count)}"
        return prefix + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()[:digits]

    # Machines

    def launch(self, order: InstanceOrder, *, id: str = "") -> Instance:
        """Launch an instance. If an instance was launched with the same client token, return that one."""
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
        """Return the current state of an instance, even while a fault makes lists show an older state."""
        instance = self.instances.get(id)
        if instance is None or instance.vendor.name != vendor.name:
            raise CloudError(
                ErrorReason.NOT_FOUND,
                f"The machine {id} does not exist. List the machines for their ids.",
                subject=id,
            )
        return instance

    def list_instances(
        self, vendor: SimVendor, *, region: str = "", forget_s: float = 3600
    ) -> list[Instance]:
        """Return the instances of a vendor, including those that ended less than `forget_s` seconds ago.

        While the fault LISTING_LAG is active, the instances are returned in the state of some seconds ago.
        """
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
        """Terminate an instance on behalf of the customer. Idempotent."""
        self.lifecycle.end(instance, StopCause.USER)

    def preempt(self, id: str, notice_s: float | None = None) -> None:
        """Give a preemption notice now, and end the instance `notice_s` seconds later.

        The default is `CloudTiming.notice_s`.
        """
        self.lifecycle.preempt(self.instances[id], notice_s)

    # Prices and capacity

    def price(self, machine_type: SimMachineType, zone: str, *, spot: bool) -> int:
        return (
            self.market.spot_price(machine_type, zone, self.clock.now_s())
            if spot
            else machine_type.price_microusd_per_hour
        )

    def has_capacity(self, vendor: SimVendor, machine_type: SimMachineType, zone: str, *, spot: bool) -> bool:
        """Return whether a machine of this type can be launched in the zone."""
        remaining = [
            limit - self._count_active(vendor, machine_type, zone if "@" in name else "")
            for name, limit in self.limits.capacity.items()
            if name in (machine_type.name, f"{machine_type.name}@{zone}")
        ]
        up = not spot or self.market.is_available(machine_type, zone, self.clock.now_s())
        return up and all(number > 0 for number in remaining)

    def billing_entries(self, vendor: SimVendor | None = None) -> list[BillingEntry]:
        """Return the bills of one vendor, or of all vendors."""
        entries = self.billing.entries(self.instances.values(), self.addresses.ever_allocated())
        return [entry for entry in entries if vendor is None or entry.vendor == vendor.name]

    def _find_type(self, order: InstanceOrder) -> SimMachineType:
        machine_type = order.vendor.find_type(order.type)
        if machine_type is None:
            raise CloudError(
                ErrorReason.INVALID,
                f"The machine type {order.type} does not exist. List the machine types for their names.",
                subject=order.type,
            )
        if order.region not in order.vendor.regions:
            raise CloudError(
                ErrorReason.INVALID,
                f"The region {order.region} does not exist. List the regions for their names.",
                subject=order.region,
            )
        return machine_type

    def _choose_zone(self, order: InstanceOrder, machine_type: SimMachineType) -> str:
        """Return the requested zone, or the first zone with capacity.

        Raise CloudError if no zone has capacity or the quota is used up.
        """
        context = FaultContext(
            vendor=order.vendor.name,
            operations=("launch",),
            region=order.region,
            type=machine_type.name,
            spot=order.spot,
        )
        if self.faults.trigger(FaultKind.QUOTA, context) or self._exceeds_quota(order, machine_type):
            raise CloudError(
                ErrorReason.QUOTA,
                f"The vCPU quota of {order.vendor.name} is used up. Terminate an instance first.",
                subject=machine_type.name,
            )
        offered = not machine_type.regions or order.region in machine_type.regions
        zones = (order.zone,) if order.zone else order.vendor.zones(order.region)
        if offered and not self.faults.trigger(FaultKind.NO_CAPACITY, context):
            for zone in zones:
                if self.has_capacity(order.vendor, machine_type, zone, spot=order.spot):
                    return zone
        raise CloudError(
            ErrorReason.NO_CAPACITY,
            f"No capacity for {machine_type.name} in {order.region}. Try another region or machine type, or "
            "wait.",
            subject=machine_type.name,
        )

    def _exceeds_quota(self, order: InstanceOrder, machine_type: SimMachineType) -> bool:
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

    def _count_active(self, vendor: SimVendor, machine_type: SimMachineType, zone: str) -> int:
        return sum(
            each.state.is_active and each.type.name == machine_type.name and zone in ("", each.zone)
            for each in self.instances.values()
            if each.vendor.name == vendor.name
        )


def _check_same_request(instance: Instance, order: InstanceOrder) -> Instance:
    if instance.order.parameters != order.parameters:
        raise CloudError(
            ErrorReason.MISMATCH,
            "The client token was already used for a request with other parameters. Use a new token.",
            subject=order.client_token,
        )
    return instance


def _lagging_view(instance: Instance, seen_at_ms: int) -> Instance:
    """Return the instance in its state at `seen_at_ms`, as an outdated list would show it."""
    if instance.stopped_at_ms is not None and instance.stopped_at_ms > seen_at_ms:
        return replace(
            instance, state=InstanceState.RUNNING, cause=StopCause.NONE, stopped_at_ms=None, ended_at_ms=None
        )
    return instance
