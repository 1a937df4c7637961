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

from anygpu.testing.cloud.books import Books, Entry
from anygpu.testing.cloud.clock import SimClock
from anygpu.testing.cloud.faults import Faults, Kind, Occasion
from anygpu.testing.cloud.instance import Body, Cause, Instance, Order, State
from anygpu.testing.cloud.lifecycle import Lifecycle, Timing
from anygpu.testing.cloud.market import Market
from anygpu.testing.cloud.refusals import Refusal, Why
from anygpu.testing.cloud.resources import Address, Disk, Keys
from anygpu.testing.cloud.storage import Addresses, Disks
from anygpu.testing.cloud.vendor import MachineType, Vendor


@dataclass(slots=True)
class Call:
    """The request being answered; the HTTP edge reads it to know which answers to lose."""

    vendor: str = ""
    operations: tuple[str, ...] = ()


CALL: ContextVar[Call] = ContextVar("simulated_call")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much there is. A capacity is named by type, or by type@zone; what is not named is unlimited."""

    capacity: Mapping[str, int] = field(default_factory=dict)
    vcpus: Mapping[str, int] = field(default_factory=dict)  # by vendor; else as the vendor has it


class Cloud:
    """Rents, lists and ends machines; keeps keys, addresses, disks, faults and the books."""

    def __init__(
        self,
        clock: SimClock,
        make_body: Callable[[Instance], Body],
        take_ip: Callable[[], str],
        *,
        market: Market | None = None,
        timing: Timing | None = None,
        limits: Limits | None = None,
        seed: int | None = None,
        ssh_port: int = 22,
    ) -> None:
        self.clock = clock
        self.ssh_port = ssh_port  # of every machine
        self.market = market or Market()
        self.limits = limits or Limits()
        self.faults = Faults(clock.now_ms)
        self.books = Books(clock.now_ms)
        self.keys = Keys(clock.now_ms)
        self.addresses = Addresses(clock.now_ms, take_ip, self.new_id)
        self.disks = Disks(clock.now_ms, self.new_id)
        self.lifecycle = Lifecycle(self, make_body, timing or Timing(), seed)
        self.credentials: dict[str, dict[str, str]] = {}  # added to those the vendors know
        self.instances: dict[str, Instance] = {}
        self._by_token: dict[tuple[str, str, str], Instance] = {}
        self._salt = secrets.token_hex(8) if seed is None else str(seed)
        self._count = itertools.count(1)

    # Who may call

    def admit(self, vendor: Vendor, *operations: str, credential: str, region: str = "") -> None:
        """First thing in every handler. `operations`: the neutral name (launch, list, end, …), and the vendor's own."""
        if (call := CALL.get(None)) is not None:
            call.vendor, call.operations = vendor.name, operations
        occasion = Occasion(vendor=vendor.name, operations=operations, region=region)
        if credential not in self.known_credentials(vendor) or self.faults.strikes(
            Kind.BAD_CREDENTIALS, occasion
        ):
            raise Refusal(Why.BAD_CREDENTIALS, "The credentials are not valid.", what=credential)
        if self.faults.strikes(Kind.THROTTLE, occasion):
            raise Refusal(Why.THROTTLED, "Request limit exceeded.")

    def known_credentials(self, vendor: Vendor) -> Mapping[str, str]:
        """Id -> secret; a vendor with mere tokens has them as ids."""
        return {**vendor.credentials, **self.credentials.get(vendor.name, {})}

    def new_id(self, prefix: str, digits: int = 17) -> str:
        """An id that looks random; with a seed, the same history gives the same ids."""
        text = f"{self._salt}:{prefix}:{next(self._count)}"
        return prefix + hashlib.blake2b(text.encode(), digest_size=16).hexdigest()[:digits]

    # Machines

    def rent(self, order: Order, *, id: str = "") -> Instance:
        """A new machine, which boots by itself; or the one this client token was used for."""
        token = (order.vendor.name, order.region, order.client_token)
        if order.client_token and token in self._by_token:
            return _same(self._by_token[token], order)
        kind = self._type(order)
        zone = self._zone(order, kind)
        instance = Instance(
            id=id or self.new_id("i-"),
            order=order,
            type=kind,
            zone=zone,
            price_microusd_per_hour=self.price(kind, zone, spot=order.spot),
            created_at_ms=self.clock.now_ms(),
            inside_ip=self.addresses.take_ip(),
            tags=dict(order.tags),
        )
        self.instances[instance.id] = instance
        if order.client_token:
            self._by_token[token] = instance
        self.disks.make_root(instance)
        self.lifecycle.start(instance)
        return instance

    def find(self, vendor: Vendor, id: str) -> Instance:
        """As it really is: no lag."""
        instance = self.instances.get(id)
        if instance is None or instance.vendor.name != vendor.name:
            raise Refusal(Why.NOT_FOUND, f"There is no machine {id}.", what=id)
        return instance

    def listed(self, vendor: Vendor, *, region: str = "", forget_s: float = 3600) -> list[Instance]:
        """What the provider lists: lagging when that fault stands; ended machines until `forget_s` have passed."""
        occasion = Occasion(vendor=vendor.name, operations=("list",), region=region)
        fault = self.faults.strikes(Kind.LISTING_LAG, occasion)
        seen_at_ms = self.clock.now_ms() - round(1000 * fault.seconds if fault else 0)
        return [
            _as_of(each, seen_at_ms)
            for each in self.instances.values()
            if each.vendor.name == vendor.name
            and region in ("", each.region)
            and (fault is None or each.created_at_ms <= seen_at_ms)
            and (each.ended_at_ms is None or each.ended_at_ms + 1000 * forget_s > seen_at_ms)
        ]

    def end(self, instance: Instance) -> None:
        """Through the API, by its customer. Twice is the same as once."""
        self.lifecycle.end(instance, Cause.USER)

    def preempt(self, id: str, notice_s: float | None = None) -> None:
        """Take a machine back after its notice; None: the usual one."""
        self.lifecycle.preempt(self.instances[id], notice_s)

    # What things cost

    def price(self, kind: MachineType, zone: str, *, spot: bool) -> int:
        return (
            self.market.spot_price(kind, zone, self.clock.now_s()) if spot else kind.price_microusd_per_hour
        )

    def has_capacity(self, vendor: Vendor, kind: MachineType, zone: str, *, spot: bool) -> bool:
        """Whether the type's listing should show it as available."""
        left = [
            limit - self._count_alive(vendor, kind, zone if "@" in name else "")
            for name, limit in self.limits.capacity.items()
            if name in (kind.name, f"{kind.name}@{zone}")
        ]
        up = not spot or self.market.available(kind, zone, self.clock.now_s())
        return up and all(number > 0 for number in left)

    def entries(self, vendor: Vendor | None = None) -> list[Entry]:
        """The books."""
        entries = self.books.entries(self.instances.values(), self.addresses.ever())
        return [entry for entry in entries if vendor is None or entry.vendor == vendor.name]

    # Addresses that are rented by themselves

    async def associate(self, address: Address, instance: Instance) -> None:
        """From now on the machine answers there."""
        if instance.state.over:
            raise Refusal(Why.CONFLICT, f"The machine {instance.id} has ended.", what=instance.id)
        address.instance = instance.id
        instance.address = address.ip
        if instance.body is not None:
            await instance.body.listen(address.ip)

    async def disassociate(self, address: Address) -> None:
        instance = self.instances.get(address.instance)
        address.instance = ""
        if instance is not None and instance.address == address.ip:
            instance.address = ""
            if instance.body is not None:
                await instance.body.silence(address.ip)

    def disks_of(self, vendor: Vendor) -> list[Disk]:
        return self.disks.all(vendor)

    # Inside

    def _type(self, order: Order) -> MachineType:
        kind = order.vendor.type_named(order.type)
        if kind is None:
            raise Refusal(Why.INVALID, f"There is no machine type {order.type}.", what=order.type)
        if order.region not in order.vendor.regions:
            raise Refusal(Why.INVALID, f"There is no region {order.region}.", what=order.region)
        return kind

    def _zone(self, order: Order, kind: MachineType) -> str:
        """The zone that was asked for, or the first that has some; refuses for capacity and quota."""
        occasion = Occasion(
            vendor=order.vendor.name,
            operations=("launch",),
            region=order.region,
            type=kind.name,
            spot=order.spot,
        )
        if self.faults.strikes(Kind.QUOTA, occasion) or self._over_quota(order, kind):
            raise Refusal(Why.QUOTA, f"The limit of {order.vendor.name} is reached.", what=kind.name)
        offered = not kind.regions or order.region in kind.regions
        zones = (order.zone,) if order.zone else order.vendor.zones(order.region)
        if offered and not self.faults.strikes(Kind.NO_CAPACITY, occasion):
            for zone in zones:
                if self.has_capacity(order.vendor, kind, zone, spot=order.spot):
                    return zone
        raise Refusal(Why.NO_CAPACITY, f"There is no {kind.name} in {order.region} now.", what=kind.name)

    def _over_quota(self, order: Order, kind: MachineType) -> bool:
        limit = self.limits.vcpus.get(order.vendor.name, order.vendor.vcpu_limit)
        used = sum(
            each.type.vcpus
            for each in self.instances.values()
            if each.vendor.name == order.vendor.name
            and each.region == order.region
            and each.order.spot == order.spot
            and each.state.alive
        )
        return used + kind.vcpus > limit

    def _count_alive(self, vendor: Vendor, kind: MachineType, zone: str) -> int:
        return sum(
            each.state.alive and each.type.name == kind.name and zone in ("", each.zone)
            for each in self.instances.values()
            if each.vendor.name == vendor.name
        )


def _same(instance: Instance, order: Order) -> Instance:
    if instance.order.parameters != order.parameters:
        raise Refusal(
            Why.MISMATCH, "The client token was used with other parameters.", what=order.client_token
        )
    return instance


def _as_of(instance: Instance, seen_at_ms: int) -> Instance:
    """The instance as a list that lags shows it."""
    if instance.stopped_at_ms is not None and instance.stopped_at_ms > seen_at_ms:
        return replace(instance, state=State.RUNNING, cause=Cause.NONE, stopped_at_ms=None, ended_at_ms=None)
    return instance
