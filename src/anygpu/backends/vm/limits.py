"""What a backend's own configuration makes of its provider's offers. Pure."""

from dataclasses import replace

from anygpu.backends.vm.options import VmOptions
from anygpu.backends.vm.timing import VmTiming
from anygpu.events.offers import MICROUSD, Offer


def allowed(
    offer: Offer, *, backend: str, options: VmOptions, timing: VmTiming, machines: int, attended: bool
) -> Offer:
    """The offer under the name of its backend, with the limits of its configuration.

    `machines` counts those of this backend that exist or are being made; `attended`: the server is always on.
    """
    left = max(0, options.max_machines - machines)
    free = left if offer.free is None else min(offer.free, left)
    return replace(
        offer,
        backend=backend,
        lease_s=offer.lease_s or timing.lease_s,
        free=free,
        containers=offer.containers or options.containers,
        wait_reason=offer.wait_reason if left else full(machines, options.max_machines),
        refused=offer.refused or refusal(offer, options, attended=attended),
    )


def refusal(offer: Offer, options: VmOptions, *, attended: bool) -> str:
    """Why the configuration does not allow it; empty when it does."""
    dearest = options.max_price_microusd_per_hour
    if dearest is not None and offer.price_microusd_per_hour > dearest:
        return (
            f"costs {dollars(offer.price_microusd_per_hour)} an hour, more than the"
            f" {dollars(dearest)} this backend may pay (max_price_microusd_per_hour)"
        )
    if offer.self_expires == "none" and not (options.unattended or attended):
        at_stake = dollars(24 * offer.price_microusd_per_hour)
        return (
            "its machines do not end by themselves: if this server stops, each goes on costing"
            f" {at_stake} a day; set unattended=true on this backend to allow that"
        )
    return ""


def full(machines: int, most: int) -> str:
    return f"{machines} of {most} machines of this backend are in use (max_machines)"


def dollars(microusd: int) -> str:
    return f"${microusd / MICROUSD:,.2f}"
