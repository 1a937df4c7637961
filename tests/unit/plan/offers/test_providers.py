"""The comparison of providers for a workload."""

from dataclasses import replace
from typing import Any

from anygpu.events.offers import Billing, Offer
from anygpu.plan.offers.bill import Span
from anygpu.plan.offers.candidates import Candidate
from anygpu.plan.offers.comparison import rank
from anygpu.plan.offers.providers import provider_comparison
from anygpu.spec.load import from_mapping

SPEC = from_mapping({"script": "train.py", "resources": {"gpu": 1}, "placement": {"interruptible": "yes"}})


def candidate(
    backend: str, gpu: str, price: float, *, spot: bool = False, configured: bool = True, **fields: Any
) -> Candidate:
    offer = Offer(
        backend=backend,
        name=f"{backend}-{gpu}",
        gpu_kind=gpu,
        gpu_count=1,
        gpu_memory_gib=24,
        interruptible=spot,
        price_microusd_per_hour=round(price * 1_000_000),
        **fields,
    )
    return Candidate(offer=offer, configured=configured, boot_s=60)


HOURS = {"A10G": 10.0, "RTX4090": 6.0, "H100": 2.0}


def compare(*candidates: Candidate, limit: int = 12) -> dict[str, Any]:
    def duration(offer: Offer) -> Span:
        return Span.exactly(HOURS[offer.gpu_kind] * 3600)

    comparison = rank(SPEC, candidates, duration=duration)
    return provider_comparison(comparison, limit=limit)


AWS = candidate("aws", "A10G", 0.43, free=3)
RUNPOD = candidate("runpod", "RTX4090", 0.80)
LAMBDA = candidate("lambda", "H100", 3.29, billing=Billing(step_s=60))
GCP = candidate("gcp", "A10G", 2.0, configured=False)


def test_providers_are_listed_cheapest_first_with_verdicts() -> None:
    found = compare(AWS, RUNPOD, LAMBDA, GCP)
    assert [each["provider"] for each in found["providers"]] == ["aws", "runpod", "lambda", "gcp"]
    verdicts = {each["provider"]: each["verdict"] for each in found["providers"]}
    assert (verdicts["aws"], verdicts["lambda"], verdicts["gcp"]) == ("cheapest", "fastest", "")
    assert [each["provider"] for each in found["providers"] if each["recommended"]] == ["aws"]
    assert found["recommendation"].startswith("aws aws-A10G")


def test_a_provider_that_cannot_be_used_gets_no_verdict() -> None:
    closed = replace(candidate("azure", "A10G", 0.01, configured=False), has_backend=False)
    found = compare(AWS, LAMBDA, closed)["providers"]
    assert [each["provider"] for each in found] == ["azure", "aws", "lambda"]
    assert [each["verdict"] for each in found] == ["", "cheapest", "fastest"]
    assert found[0]["availability"] == "unsupported"


def test_availability_and_features_are_told_in_words() -> None:
    rows = {each["provider"]: each for each in compare(AWS, RUNPOD, LAMBDA, GCP)["providers"]}
    assert (rows["aws"]["availability"], rows["aws"]["available"]) == ("free", "3 free")
    assert rows["runpod"]["availability"] == "unknown"
    assert (rows["gcp"]["availability"], rows["gcp"]["available"]) == ("no_account", "no account")
    assert "billed by the minute" in rows["lambda"]["features"]


def test_every_provider_is_listed_before_a_second_machine_of_one() -> None:
    cheap = [candidate("runpod", gpu, 0.01 * n) for n, gpu in enumerate(HOURS, start=1)]
    found = compare(*cheap, AWS, LAMBDA, limit=5)
    assert {each["provider"] for each in found["providers"]} == {"runpod", "aws", "lambda"}
    few = compare(*cheap, AWS, LAMBDA, limit=4)
    assert few["more"] == 1
    assert len({each["provider"] for each in few["providers"]}) >= 2


def test_spot_and_on_demand_are_two_rows() -> None:
    found = compare(AWS, candidate("aws", "A10G", 1.01), candidate("aws", "A10G", 0.4, spot=True))
    assert [each["interruptible"] for each in found["providers"]].count(True) == 1
    assert any("spot" in each["features"] for each in found["providers"])


def test_nothing_that_fits_is_an_empty_list() -> None:
    found = compare(candidate("aws", "A10G", 1.0, refused="too expensive"))
    assert (found["providers"], found["recommendation"]) == ([], "")
