"""The provider's offers: cached for a minute, and limited by the options of the backend."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from anygpu.backends.vm.options import VmOptions, VmTiming
from anygpu.events.offers import MICROUSD, Offer
from anygpu.spec.sections import Resources


def apply_limits(
    offer: Offer,
    *,
    backend: str,
    options: VmOptions,
    timing: VmTiming,
    machines: int,
    attended: bool,
    connects_nodes: bool = False,
) -> Offer:
    """Return the offer with the backend's name and limits filled in.

    `machines` is the number of machines of this backend that exist or are being created. `attended`: the
    server is always on. `connects_nodes`: the provider's machines can reach each other.
    """
    left = max(0, options.max_machines - machines)
    free = left if offer.free is None else min(offer.free, left)
    return replace(
        offer,
        backend=backend,
        lease_s=offer.lease_s or timing.lease_s,
        free=free,
        containers=offer.containers or options.containers,
        wait_reason=offer.wait_reason if left else full_reason(machines, options.max_machines),
        max_nodes=options.max_nodes or (options.max_machines if connects_nodes else 1),
        refused=offer.refused or refusal_reason(offer, options, attended=attended),
    )


def refusal_reason(offer: Offer, options: VmOptions, *, attended: bool) -> str:
    """Return why the backend's options forbid the offer; "" if they allow it."""
    dearest = options.max_price_microusd_per_hour
    if dearest is not None and offer.price_microusd_per_hour > dearest:
        return (
            f"costs {format_dollars(offer.price_microusd_per_hour)} an hour, more than the"
            f" {format_dollars(dearest)} this backend may pay (max_price_microusd_per_hour)"
        )
    if offer.self_expires == "none" and not (options.unattended or attended):
        at_stake = format_dollars(24 * offer.price_microusd_per_hour)
        return (
            "its machines cannot end by themselves: if the anygpu server stops, each continues to cost "
            f"{at_stake} a day; set the option unattended=true of this backend to allow that"
        )
    return ""


def full_reason(machines: int, most: int) -> str:
    return f"{machines} of {most} machines of this backend are in use (max_machines)"


def format_dollars(microusd: int) -> str:
    return f"${microusd / MICROUSD:,.2f}"


FetchOffers = Callable[[Resources], Awaitable[Sequence[Offer]]]


class CachedOffers:
    """Caches the provider's offers for each set of resources. Callers at the same time share one call."""

    def __init__(self, ask: FetchOffers, *, keep_s: float) -> None:
        self._fetch = ask
        self._max_age_s = keep_s
        self._answers: dict[Resources, tuple[float, asyncio.Task[Sequence[Offer]]]] = {}

    async def get(self, need: Resources) -> Sequence[Offer]:
        now = asyncio.get_running_loop().time()
        self._answers = {n: a for n, a in self._answers.items() if now - a[0] < self._max_age_s}
        if need not in self._answers:
            self._answers[need] = now, asyncio.create_task(self._fetch_or_forget(need))
        # Shielded: a caller that is cancelled must not cancel the call of the others.
        return await asyncio.shield(self._answers[need][1])

    async def _fetch_or_forget(self, need: Resources) -> Sequence[Offer]:
        try:
            return tuple(await self._fetch(need))
        except Exception:
            self._answers.pop(need, None)  # errors are not cached
            raise

    async def close(self) -> None:
        tasks = [task for _, task in self._answers.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
