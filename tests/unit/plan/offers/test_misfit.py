"""One sentence says why no configured backend can ever run a job, and what to do."""

from typing import Any

import pytest

from anygpu.events.offers import Offer
from anygpu.plan.offers.misfit import describe_misfit, rejected_offers, unknown_backend
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.load import from_mapping

LOCAL = Offer(backend="local", name="here", cpus=8, memory_gib=32, own=True)
CLOUD = Offer(
    backend="cloud",
    name="m1",
    region="eu",
    gpu_kind="NVIDIA T4",
    gpu_count=4,
    gpu_memory_gib=16,
    cpus=16,
    interruptible=True,
    price_microusd_per_hour=1,
)


def spec(**fields: Any) -> JobSpec:
    return from_mapping({"script": "train.py", **fields})


def text(offers: tuple[Offer, ...], *, clouds: tuple[str, ...] = (), **fields: Any) -> str:
    misfit = describe_misfit(spec(**fields), offers, resumable=None, clouds=clouds)
    return f"{misfit.message} {misfit.hint}"


BOTH = LOCAL, CLOUD
CASES: list[tuple[tuple[Offer, ...], dict[str, Any], str]] = [
    (BOTH, {"resources": {"gpu": "A1000"}}, "There is no GPU 'A1000'. Did you mean 'A100'?"),
    (BOTH, {"resources": {"gpu": "H100"}}, "No configured backend has the GPU H100; they have T4."),
    ((LOCAL,), {"resources": {"gpu": 1}}, "The job needs 1 GPU, and no configured backend has a GPU."),
    (BOTH, {"resources": {"gpu": 8}}, "needs 8 GPUs in one machine, and the largest machine"),
    (BOTH, {"placement": {"region": "mars"}}, "the region 'mars'. There are: eu."),
    (BOTH, {"placement": {"instance_type": "m11"}}, "the machine type 'm11'. Did you mean 'm1'?"),
    ((LOCAL,), {"resources": {"memory": "64GiB"}}, "local has 32 GiB of memory, the job needs 64"),
    (BOTH, {"resources": {"gpu": 1}}, "cloud can be interrupted, and nothing shows that the job can resume"),
    (
        BOTH,
        {"resources": {"nodes": 2}},
        "needs 2 machines (resources.nodes), and no configured backend gives",
    ),
    ((), {}, "No configured backend has a machine for this job. Add a machine with `anygpu host add"),
]


@pytest.mark.parametrize(("offers", "fields", "said"), CASES, ids=[row[2] for row in CASES])
def test_the_sentence_names_what_is_missing(
    offers: tuple[Offer, ...], fields: dict[str, Any], said: str
) -> None:
    assert said in text(offers, **fields)


def test_clouds_that_rent_the_gpu_are_named_with_the_command_that_adds_one() -> None:
    said = text(BOTH, clouds=("runpod", "lambda"), resources={"gpu": "H100"})
    assert "lambda, runpod rent it: `anygpu backend add lambda --kind lambda`." in said


def test_a_name_that_is_no_backend_gets_a_suggestion() -> None:
    found = unknown_backend(spec(placement={"fallbacks": ["cheapst"]}), {"local"})
    assert found is not None
    assert found.hint == "Did you mean 'cheapest'?"
    assert unknown_backend(spec(placement={"allowed": ["local"]}), {"local"}) is None


def test_reasons_are_counted_by_backend() -> None:
    rows = rejected_offers(spec(resources={"cpus": 64}), [LOCAL, LOCAL, CLOUD], resumable=True)
    assert [(row.backend, row.count) for row in rows] == [("cloud", 1), ("local", 2)]
