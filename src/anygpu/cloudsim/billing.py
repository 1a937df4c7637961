"""Bills of the simulated providers: the cost of each instance and address by the provider's billing rule."""

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

from anygpu.cloudsim.instance import Instance, StopCause
from anygpu.cloudsim.resources import PublicAddress

HOUR_S = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class BillingEntry:
    """The bill of a simulated machine or address.

    `by_rule_microusd` is the correct cost by the billing rule. `billed_microusd` is the amount that the provider
    reports, which is wrong on purpose if `meter_factor` is not 1.
    """

    kind: str  # machine | address
    vendor: str
    id: str
    name: str
    type: str
    region: str
    spot: bool
    price_microusd_per_hour: int
    started_at_ms: int
    ended_at_ms: int | None  # None: still billing
    billed_s: int
    by_rule_microusd: int
    billed_microusd: int
    cause: str

    def json(self) -> dict[str, Any]:
        return asdict(self)


def cost_microusd(price_microusd_per_hour: int, billed_s: int) -> int:
    """Return the cost in micro-dollars, rounded half up."""
    return (price_microusd_per_hour * billed_s + HOUR_S // 2) // HOUR_S


class CloudBilling:
    """The bills, computed from the recorded times of instances and addresses."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self.meter_factor = 1.0  # the billed amount is multiplied by this; not 1.0: a wrong meter

    def entries(
        self, instances: Iterable[Instance], addresses: Iterable[PublicAddress]
    ) -> list[BillingEntry]:
        return [self.machine_entry(each) for each in instances] + [
            self.address_entry(each) for each in addresses
        ]

    def machine_entry(self, instance: Instance) -> BillingEntry:
        end_ms = billing_end_ms(instance)
        billed_s = instance.vendor.billing_rule.billed_s(self._used_s(instance.created_at_ms, end_ms))
        return self._entry(
            kind="machine",
            vendor=instance.vendor.name,
            id=instance.id,
            name=instance.name,
            type=instance.type.name,
            region=instance.region,
            spot=instance.order.spot,
            price_microusd_per_hour=instance.price_microusd_per_hour,
            started_at_ms=instance.created_at_ms,
            ended_at_ms=end_ms,
            billed_s=billed_s,
            cause=str(instance.cause),
        )

    def address_entry(self, address: PublicAddress) -> BillingEntry:
        used_s = self._used_s(address.allocated_at_ms, address.released_at_ms)
        return self._entry(
            kind="address",
            vendor=address.vendor.name,
            id=address.id,
            name=address.name,
            type="address",
            region=address.region,
            spot=False,
            price_microusd_per_hour=address.vendor.address_microusd_per_hour,
            started_at_ms=address.allocated_at_ms,
            ended_at_ms=address.released_at_ms,
            billed_s=address.vendor.billing_rule.billed_s(used_s),
            cause="",
        )

    def _used_s(self, start_ms: int, end_ms: int | None) -> int:
        """Return the used time in whole seconds.

        Start and end are rounded down to seconds first, because the times that customers see have no
        fractions.
        """
        return (self._now_ms() if end_ms is None else end_ms) // 1000 - start_ms // 1000

    def _entry(self, *, price_microusd_per_hour: int, billed_s: int, **rest: Any) -> BillingEntry:
        by_rule = cost_microusd(price_microusd_per_hour, billed_s)
        return BillingEntry(
            price_microusd_per_hour=price_microusd_per_hour,
            billed_s=billed_s,
            by_rule_microusd=by_rule,
            billed_microusd=round(by_rule * self.meter_factor),
            **rest,
        )


def billing_end_ms(instance: Instance) -> int | None:
    """Return when the billing of an instance ended; None if it is still billed.

    At some vendors, a machine that has shut itself down is billed until it is terminated.
    """
    still_billed = (
        instance.cause is StopCause.HALT and (instance.order.on_halt or instance.vendor.on_halt) == "off"
    )
    return instance.ended_at_ms if still_billed else instance.stopped_at_ms
