"""The kinds of fault in a simulated history, their rates, and a count of how often each occurred."""

import random
from collections import Counter
from collections.abc import Callable, Mapping
from enum import StrEnum


class Fault(StrEnum):
    """The kinds of fault.

    Each occurrence is counted, and the test suite fails if a kind has never occurred.
    """

    KILLED_BEFORE_WRITE = "process killed before a write"
    KILLED_AFTER_WRITE = "process killed after a write"
    STALLED = "process stood still"
    TWO_PROCESSES = "two control processes"
    STORE_BUSY = "database locked"
    ANSWER_OF_STORE_LOST = "database answer lost after commit"
    STORAGE_FULL = "disk full"
    WAKE_LOST = "wake-up lost"
    CLOCK_JUMPED = "wall clock jumped"
    REQUEST_LOST = "request lost"
    RESPONSE_DROPPED = "response dropped after commit"
    DUPLICATED = "request delivered twice"
    LATE = "request delivered late"
    REORDERED = "request delivered after a newer one"
    PARTITIONED = "machine cut off"
    ZOMBIE = "commit tried after the attempt was over"
    PAUSED = "machine stood still"
    LAUNCH_TIMED_OUT = "launch succeeded but timed out"
    LAUNCH_LATE = "launch took effect long after it timed out"
    LAUNCH_LOST = "launch lost"
    TWIN = "two machines for one attempt"
    NO_CAPACITY = "no capacity"
    BAD_CREDENTIALS = "bad credentials"
    THROTTLED = "throttled"
    OUTAGE = "backend cannot be reached for a while"
    LAUNCH_NOT_SENT = "backend cannot be reached for a launch"
    LISTING_LAG = "listing lag"
    PROBE_FAILED = "probe failed"
    TERMINATE_TIMED_OUT = "terminate succeeded but timed out"
    TERMINATE_LOST = "terminate lost"
    OUT_OF_QUOTA = "no quota"
    BOOT_STUCK = "boot never finished"
    SETUP_FAILED = "a step of setting the machine up failed"
    ENDED_STILL_LISTED = "ended machine listed as running"
    ADDRESS_LEFT = "address left behind"
    EXPIRED = "machine reached its longest life"
    PRICE_CHANGED = "price changed"
    METER_LATE = "meter not ready"
    PREEMPTED_0 = "preempted without notice"
    PREEMPTED_30 = "preempted with 30 s notice"
    PREEMPTED_120 = "preempted with 120 s notice"
    PREEMPTED_PROVISIONING = "preempted while provisioning"
    PREEMPTED_CHECKPOINTING = "preempted while checkpointing"
    PREEMPTED_CANCELLING = "preempted while cancelling"
    REQUEUED = "engine put a job back into its queue"
    MACHINE_DIED = "machine died silently"
    AGENT_DIED = "agent died"
    SPOOL_LOST = "disk of a dead agent unreadable"
    UPLOAD_TORN = "upload torn"
    UPLOAD_CORRUPT = "upload corrupt"
    CHECKPOINT_ROTTED = "published checkpoint damaged at rest"
    VIEW_DAMAGED = "stored view damaged"
    EVENT_DAMAGED = "event of a job damaged"
    RELAY_DOWN = "store of the relay does not answer"
    RELAY_LISTING_STALE = "listing of mailboxes out of date"
    RELAY_READ_STALE = "message in a mailbox out of date"
    RELAY_MESSAGE_LATE = "message in a mailbox visible late"


SQL_ONLY = frozenset({Fault.VIEW_DAMAGED, Fault.EVENT_DAMAGED})  # faults that need the SQL journal


# Probability of a fault each time it can occur, in histories that include its kind.
RATES: Mapping[Fault, float] = {
    Fault.KILLED_BEFORE_WRITE: 0.006,
    Fault.KILLED_AFTER_WRITE: 0.006,
    Fault.STALLED: 0.015,
    Fault.STORE_BUSY: 0.03,
    Fault.ANSWER_OF_STORE_LOST: 0.02,
    Fault.STORAGE_FULL: 0.02,
    Fault.WAKE_LOST: 0.5,
    Fault.CLOCK_JUMPED: 0.02,
    Fault.REQUEST_LOST: 0.1,
    Fault.RESPONSE_DROPPED: 0.12,
    Fault.DUPLICATED: 0.25,
    Fault.LATE: 0.08,
    Fault.REORDERED: 0.2,
    Fault.PARTITIONED: 0.1,
    Fault.PAUSED: 0.06,
    Fault.LAUNCH_TIMED_OUT: 0.3,
    Fault.LAUNCH_LATE: 0.25,
    Fault.LAUNCH_LOST: 0.2,
    Fault.NO_CAPACITY: 0.3,
    Fault.BAD_CREDENTIALS: 0.15,
    Fault.THROTTLED: 0.15,
    Fault.LISTING_LAG: 0.3,
    Fault.PROBE_FAILED: 0.15,
    Fault.TERMINATE_TIMED_OUT: 0.3,
    Fault.TERMINATE_LOST: 0.3,
    Fault.OUT_OF_QUOTA: 0.2,
    Fault.BOOT_STUCK: 0.1,
    Fault.SETUP_FAILED: 0.15,
    Fault.ENDED_STILL_LISTED: 0.4,
    Fault.ADDRESS_LEFT: 0.4,
    Fault.PRICE_CHANGED: 0.1,
    Fault.METER_LATE: 0.3,
    Fault.PREEMPTED_0: 0.05,
    Fault.PREEMPTED_30: 0.05,
    Fault.PREEMPTED_120: 0.05,
    Fault.MACHINE_DIED: 0.04,
    Fault.AGENT_DIED: 0.04,
    Fault.SPOOL_LOST: 0.3,
    Fault.UPLOAD_TORN: 0.2,
    Fault.UPLOAD_CORRUPT: 0.2,
    Fault.CHECKPOINT_ROTTED: 0.2,
}


RELAY_RATES: Mapping[Fault, float] = {
    Fault.RELAY_DOWN: 0.05,
    Fault.RELAY_LISTING_STALE: 0.1,
    Fault.RELAY_READ_STALE: 0.1,
    Fault.RELAY_MESSAGE_LATE: 0.15,
}


class FaultInjector:
    """Decides at random, from a seed, when a fault occurs, and counts the faults.

    No fault occurs after `until` (virtual seconds).
    """

    def __init__(
        self,
        seed: str,
        rates: Mapping[Fault, float],
        until: float,
        now: Callable[[], float],
        trace: Callable[[str], None],
    ) -> None:
        self.random = random.Random(seed)
        self.counts: Counter[Fault] = Counter()
        self._rates = rates
        self._until = until
        self._now = now
        self._trace = trace

    @property
    def active(self) -> bool:
        return self._now() < self._until

    def occurs(self, fault: Fault, factor: float = 1.0) -> bool:
        rate = self._rates.get(fault, 0.0)
        if not rate or not self.active or self.random.random() >= rate * factor:
            return False
        self.record(fault)
        return True

    def record(self, fault: Fault, about: str = "") -> None:
        self.counts[fault] += 1
        self._trace(f"fault {fault.name} {about}")

    def uniform(self, low: float, high: float) -> float:
        return self.random.uniform(low, high)


def random_rates(rng: random.Random) -> dict[Fault, float]:
    """Return a random selection of faults with their rates (probability at each opportunity).

    Often only a few kinds are selected, because histories with few kinds of fault reveal more errors.
    """
    share = rng.choice([0.0, 0.15, 0.3, 0.3, 0.6, 1.0])
    return {fault: rate * rng.uniform(0.3, 1.2) for fault, rate in RATES.items() if rng.random() < share}
