"""What leaves a machine costs what its cloud charges for traffic: the model, or only what was trained of it."""

from dataclasses import replace

import pytest

from anygpu.events.offers import Offer
from anygpu.plan.analyse.findings import Analysis, CodeFinding
from anygpu.plan.offers.bill import Span
from anygpu.plan.offers.candidates import Candidate
from anygpu.plan.offers.estimate import Estimator
from anygpu.spec.load import from_mapping

SPEC = from_mapping({"script": "train.py"})
BILLION = CodeFinding(value=2**30)
THERE = Candidate(
    offer=Offer(backend="cloud", gpu_kind="A100", gpu_count=1, price_microusd_per_hour=1_000_000),
    egress_microusd_per_gib=90_000,
)
HOUR = Span.exactly(3600.0)


@pytest.mark.parametrize(
    ("read", "gib"),
    [
        (None, 0.0),
        (Analysis(), 0.0),
        (Analysis(parameters=BILLION), 4.0),
        (Analysis(parameters=BILLION, half_weights=CodeFinding(value=True)), 2.0),
        (Analysis(parameters=BILLION, adapters=CodeFinding(value="lora")), 0.02),
    ],
)
def test_the_model_is_paid_for_as_it_leaves(read: Analysis | None, gib: float) -> None:
    estimator = Estimator(spec=SPEC, analysis=read)
    found = estimator.bill(THERE, HOUR)
    free = estimator.bill(replace(THERE, egress_microusd_per_gib=0), HOUR)
    assert found.egress_microusd == round(gib * 90_000)
    assert found.cost_microusd.expected - free.cost_microusd.expected == found.egress_microusd
    assert found.transfer_s == pytest.approx(gib / 0.05)
