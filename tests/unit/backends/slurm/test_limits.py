"""How many jobs are submitted after Slurm has refused one because there were too many."""

from anygpu.backends.slurm.limits import FORGET_S, MANY_JOBS, RETRY_S, SubmissionLimits
from anygpu.events.offers import Offer

GPU, OTHER = Offer(backend="lab", name="gpu/t4x2"), Offer(backend="lab", name="long/cpu")


class Limits(SubmissionLimits):
    """Limits with a clock that tests set."""

    def __init__(self) -> None:
        self.now = 1000.0
        super().__init__(lambda: self.now)

    def refuse(self, offer: Offer = GPU, *, began_s_ago: float = 0) -> None:
        self.record_refusal(offer, "too many jobs", began_at=self.now - began_s_ago)

    def free(self, offer: Offer = GPU, nodes: int = 1) -> int | None:
        return self.apply(offer, nodes).free


def test_a_partition_that_has_refused_no_job_is_not_limited() -> None:
    limits = Limits()
    limits.refuse()
    limited = limits.apply(GPU, 1)
    assert (limited.free, limited.wait_reason) == (0, "too many jobs")
    assert not limited.is_shared_by_jobs, (
        "no job is preempted, and no quota counts, for a place in Slurm's queue"
    )
    assert limits.apply(OTHER, 1) == OTHER


def test_one_job_follows_each_that_leaves_the_queue() -> None:
    limits = Limits()
    limits.refuse()
    limits.record_ends(2)
    assert (limits.free(), limits.free(nodes=3)) == (2, 6)
    limits.record_acceptance(GPU)
    assert limits.free() == 1
    limits.refuse()
    assert limits.free() == 0


def test_a_submission_that_began_before_a_job_left_does_not_show_that_its_place_is_taken() -> None:
    limits = Limits()
    limits.refuse()
    limits.now += 1
    limits.record_ends(1)
    limits.now += 1
    limits.refuse(began_s_ago=1.5)
    assert limits.free() == 1
    limits.refuse(began_s_ago=0.5)
    assert limits.free() == 0


def test_after_some_minutes_one_job_tries_and_then_twice_as_many_each_time() -> None:
    limits = Limits()
    limits.refuse()
    limits.now += RETRY_S
    for tries in (1, 2, 4):
        assert limits.free() == tries
        for _ in range(tries):
            limits.record_acceptance(GPU)
    limits.refuse()
    assert limits.free() == 0


def test_a_limit_is_forgotten_when_many_jobs_were_accepted_or_none_was_refused_for_an_hour() -> None:
    limits = Limits()
    limits.refuse()
    limits.now += RETRY_S
    for _ in range(MANY_JOBS):
        limits.record_acceptance(GPU)
    assert limits.free() is None
    limits.refuse()
    limits.now += FORGET_S + 1
    assert limits.free() is None


def test_an_offer_that_is_full_keeps_its_reason() -> None:
    limits = Limits()
    limits.refuse()
    full = Offer(backend="lab", name="gpu/t4x2", free=0, wait_reason="drained")
    limits.record_ends(1)
    assert limits.apply(full, 1) == full
