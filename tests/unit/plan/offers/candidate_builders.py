"""Places of every sort for these tests: rented and owned, alike but for a price, free, shared, out of date."""

from collections.abc import Iterable
from dataclasses import replace

from hypothesis import strategies as st

from anygpu.events.offers import Billing, Offer
from anygpu.plan.offers.candidates import Candidate

KINDS = ("T4", "A100-40GB", "H100-SXM", "V100-16GB", "")
MEMORY_GIB = {"T4": 16.0, "A100-40GB": 40.0, "H100-SXM": 80.0, "V100-16GB": 16.0, "": 0.0}
PRICES = st.one_of(st.sampled_from((0, 1, 400_000, 400_001, 1_200_000)), st.integers(0, 20_000_000))
STRATEGIES = ("cheapest", "fastest", "balanced", "preferred", "queue")


def strategies() -> st.SearchStrategy[str]:
    return st.sampled_from(STRATEGIES)


@st.composite
def various_places(draw: st.DrawFn) -> list[Candidate]:
    """A few kinds of machine, each at several prices in several regions."""
    kinds = draw(st.lists(_kinds(), min_size=1, max_size=4))
    return [
        _there(draw, kind, f"{number}-{at}")
        for number, kind in enumerate(kinds)
        for at in range(draw(st.integers(1, 5)))
    ]


@st.composite
def _kinds(draw: st.DrawFn) -> Candidate:
    kind = draw(st.sampled_from(KINDS))
    offer = Offer(
        backend=draw(st.sampled_from(("ec2", "lambda", "lab"))),
        gpu_kind=kind,
        gpu_count=draw(st.sampled_from((1, 4))) if kind else 0,
        gpu_memory_gib=MEMORY_GIB[kind] if draw(st.booleans()) else 0,
        cpus=draw(st.sampled_from((0, 4, 64))),
        interruptible=draw(st.booleans()),
        containers=draw(st.booleans()),
        refused=draw(st.sampled_from(("", "", "over its limit"))),
        billing=draw(st.sampled_from((Billing(), Billing(step_s=60), Billing(step_s=3600, minimum_s=3600)))),
        max_run_s=draw(st.sampled_from((None, None, 30.0, 3600.0, 86_400.0))),
        free=draw(st.sampled_from((None, None, 0, 1, 2))),
        own=draw(st.booleans()),
        shared=draw(st.booleans()),
        max_nodes=draw(st.sampled_from((1, 2, 8))),
        interconnect=draw(st.sampled_from(("", "ethernet", "efa"))),
    )
    return Candidate(
        offer=offer,
        boot_s=draw(st.sampled_from((5.0, 60.0))),
        egress_microusd_per_gib=draw(st.sampled_from((0, 90_000))),
        configured=draw(st.booleans()),
        has_backend=draw(st.booleans()),
        dedicated=draw(st.booleans()),
        credit_microusd=draw(st.sampled_from((0, 0, 400_000, 5_000_000, 300_000_000))),
    )


def _there(draw: st.DrawFn, kind: Candidate, zone: str) -> Candidate:
    offer = replace(
        kind.offer,
        name=draw(st.sampled_from(("machine-0", "machine-1", "p4d.24xlarge"))),
        region=draw(st.sampled_from(("", "here", "there"))),
        zone=zone,  # tells apart what is otherwise the same
        price_microusd_per_hour=draw(PRICES),
    )
    return replace(kind, offer=offer, stale_days=draw(st.sampled_from((0, 120, 400))))


def as_candidates(offers: Iterable[Offer]) -> list[Candidate]:
    """Candidates of a configured backend without terms of its own."""
    return [Candidate.from_offer(offer) for offer in offers]
