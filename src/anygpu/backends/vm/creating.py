"""Makes one machine for one name, whatever timed out, was repeated, or is not listed yet."""

import asyncio
import time
import uuid

from anygpu.backends.vm.attempt import VmAttempt
from anygpu.backends.vm.listing import ALIVE, Listing, kept
from anygpu.backends.vm.owned import OwnedMachines
from anygpu.backends.vm.provider import Machine, Order
from anygpu.errors import LaunchError, LaunchRefused, RateLimited

CERTAIN = (LaunchError, RateLimited)  # the provider has said no: nothing was made


class Maker:
    """Where the provider knows idempotency keys it is trusted with them; elsewhere the list decides."""

    def __init__(self, machines: OwnedMachines, listing: Listing, *, idempotent: bool, lag_s: float) -> None:
        self._machines = machines
        self._listing = listing
        self._idempotent = idempotent
        self._lag_s = lag_s
        self._born_at = asyncio.get_running_loop().time()
        self._born_at_ms = time.time() * 1000

    async def machine(self, attempt: VmAttempt, order: Order) -> Machine:
        """The machine of this name: found or made. An error that is not `CERTAIN` leaves it unknown."""
        if not self._idempotent:
            earlier = await self._earlier(attempt)
            if earlier is not None:
                return earlier
        return await self._create(attempt, order)

    async def _earlier(self, attempt: VmAttempt) -> Machine | None:
        """What an earlier call made. Asked until no such call can show up any more: a create that timed out may
        have succeeded, and a list may lag behind it, so that creating again at once would make twins."""
        settled_at = max(attempt.may_appear_until, self._clear_at(attempt), attempt.since)
        snapshot = await self._listing.newer_than(attempt.since)
        while True:
            alive = [m for m in snapshot.of(attempt.name) if m.power in ALIVE]
            if alive:
                return kept(alive)
            if attempt.terminated:
                raise LaunchRefused(f"{attempt.name} was ended before it was launched")
            if snapshot.began_at >= settled_at:
                return None
            snapshot = await self._listing.newer_than(asyncio.get_running_loop().time())

    def _clear_at(self, attempt: VmAttempt) -> float:
        """From when on a list shows what an earlier process ordered. A job younger than this one had no other."""
        job_id = attempt.launch.job_id if attempt.launch else ""
        return float("-inf") if _made_ms(job_id) > self._born_at_ms else self._born_at + self._lag_s

    async def _create(self, attempt: VmAttempt, order: Order) -> Machine:
        clock = asyncio.get_running_loop()
        try:
            machine = await self._machines.create(order)
        except CERTAIN:
            attempt.refused = attempt.may_appear_until == float("-inf")
            raise
        except BaseException:  # a timeout, a cut connection, our own end: it may have been made
            attempt.may_appear_until = clock.time() + self._lag_s
            raise
        attempt.may_appear_until = clock.time() + self._lag_s
        return machine


def _made_ms(job_id: str) -> float:
    """The moment a UUIDv7 carries; long ago for any other id."""
    try:
        made = uuid.UUID(job_id)
    except ValueError:
        return float("-inf")
    return made.int >> 80 if made.version == 7 else float("-inf")
