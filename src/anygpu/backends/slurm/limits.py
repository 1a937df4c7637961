"""Submit only a few jobs after Slurm has refused one because the user or the cluster has too many."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from anygpu.backends.slurm.script import split_offer_name
from anygpu.events.offers import Offer

RETRY_S = 300.0  # after the last refusal: other users or programs may have made room
FORGET_S = 3600.0
MANY_JOBS = 64  # accepted one after the other, so that there seems to be no limit any more


@dataclass(slots=True)
class _Limit:
    reason: str
    refused_at: float
    room: int = 0  # jobs that may be submitted


class SubmissionLimits:
    """How many jobs may be submitted to each partition that has refused one because of the number of jobs.

    One job may follow each of this server's jobs that leaves the queue. If none has been refused for some minutes, one
    job tries, and twice as many each time that all were accepted.

    The limit may be that of a partition or that of the user. So a partition that has refused no job is not limited.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._limits: dict[str, _Limit] = {}
        self._left_at = float("-inf")  # when a job last left the queue

    def apply(self, offer: Offer, nodes: int) -> Offer:
        """Return the offer with the number of nodes that jobs of so many nodes may still get."""
        limit = self._limits.get(_partition(offer))
        if limit is None or offer.is_full or self._clock() - limit.refused_at > FORGET_S:
            return offer
        room = max(1, limit.room) if self._is_old(limit) else limit.room
        return replace(offer, free=room * nodes, wait_reason=limit.reason, has_queue=True)

    def record_refusal(self, offer: Offer, reason: str, *, began_at: float) -> None:
        """Remember that Slurm has refused a job because of the number of jobs.

        A submission that began before a job left the queue does not show that its place is taken.
        """
        name = _partition(offer)
        known = self._limits.get(name)
        room = known.room if known is not None and began_at < self._left_at else 0
        self._limits[name] = _Limit(reason, self._clock(), room)

    def record_acceptance(self, offer: Offer) -> None:
        limit = self._limits.get(_partition(offer))
        if limit is None:
            return
        limit.room = max(1, limit.room) + 1 if self._is_old(limit) else max(0, limit.room - 1)
        if limit.room > MANY_JOBS:
            del self._limits[_partition(offer)]

    def record_ends(self, count: int) -> None:
        """Remember that jobs of this server have left the queue."""
        if count:
            self._left_at = self._clock()
        for limit in self._limits.values():
            limit.room += count

    def _is_old(self, limit: _Limit) -> bool:
        return self._clock() - limit.refused_at >= RETRY_S


def _partition(offer: Offer) -> str:
    return split_offer_name(offer.name)[0]
