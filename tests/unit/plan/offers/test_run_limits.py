"""Where a run may not last as long as the job: several runs, or another place."""

from typing import Any

from anygpu.events.offers import Billing, Offer
from anygpu.plan.analyse.findings import Analysis
from anygpu.plan.analyse.script import analyse
from anygpu.plan.offers.bill import HANDOVER_S, Overheads, RunEstimate, Span, estimate_bill
from anygpu.plan.offers.candidates import Candidate
from anygpu.plan.offers.comparison import RankedOffer, rank
from anygpu.spec.load import from_mapping

DAY_S = 86_400.0
FREE_TO_RUN = Offer(backend="vm", gpu_kind="T4", gpu_count=1, price_microusd_per_hour=1_000_000)
NEVER_RESUMES = analyse("import torch\nfor epoch in range(9):\n    train(epoch)\n")
RESUMES: dict[str, Any] = {"checkpoint": {"paths": ["last.pt"], "resume_args": ["--resume"]}}


def only(
    max_run_s: float | None, *, hours: float = 60, read: Analysis | None = None, **spec: Any
) -> RankedOffer:
    """The only place there is, fitting or not."""
    offer = Offer(
        backend="a", gpu_kind="T4", gpu_count=1, price_microusd_per_hour=1_000_000, max_run_s=max_run_s
    )
    placement = {"placement": {"expected_duration": f"{hours}h"}} if hours else {}
    found = rank(from_mapping({"script": "a.py", **placement, **spec}), [Candidate(offer=offer)], read)
    lines: list[RankedOffer] = [*found.ranked, *found.rejected]
    return lines[0]


def test_a_job_that_resumes_takes_several_runs_and_pays_for_each_start() -> None:
    once, thrice = only(None, **RESUMES), only(DAY_S, **RESUMES)
    assert (once.bill.runs, thrice.bill.runs) == (1, 3)
    assert thrice.bill.wall_s.expected == once.bill.wall_s.expected + 2 * once.bill.setup_s
    assert thrice.bill.cost_microusd.expected > once.bill.cost_microusd.expected
    assert not thrice.rejection
    assert "takes 3 runs, as one may last at most 24 h" in thrice.cons


def test_a_job_that_does_not_resume_is_kept_away_with_the_reason() -> None:
    found = only(DAY_S, read=NEVER_RESUMES)
    assert found.rejection == (
        "allows a run of at most 24 h, and nothing shows that the job can resume; load the checkpoint that"
        " anygpu.resume_path() returns, or set checkpoint.resume_args"
    )
    assert not only(DAY_S, hours=20, read=NEVER_RESUMES).rejection


def test_a_doubtful_prediction_and_code_that_nobody_has_read_are_only_a_con() -> None:
    doubtful, unseen = only(3600.0, hours=0, read=NEVER_RESUMES), only(3600.0)
    assert (doubtful.confidence, doubtful.rejection) == ("low", "")
    assert (unseen.confidence, unseen.rejection) == ("high", "")
    for line in (doubtful, unseen):
        assert any("a run may last at most 60 min" in con for con in line.cons)


def test_where_runs_are_short_a_start_is_taken_to_be_quick() -> None:
    short, once = only(30.0, **RESUMES), only(None, **RESUMES)
    assert not short.rejection
    assert once.bill.wall_s.expected < short.bill.wall_s.expected < 1.6 * once.bill.wall_s.expected


def test_a_reservation_that_is_about_to_end_takes_no_run_and_breaks_no_plan() -> None:
    for found in (only(0.0, **RESUMES), only(0.0, read=NEVER_RESUMES), only(0.0)):
        assert found.rejection == "has no time left for a run: its reservation is about to end"
        assert found.bill.runs == 1


def test_what_is_done_at_once_takes_one_run_however_long_its_data_takes() -> None:
    run = RunEstimate(training_s=Span(expected=60.0, low=0.0, high=60.0), upload_gib=100.0, resumes=True)
    found = estimate_bill(Offer(backend="a", max_run_s=600.0), run, Overheads())
    assert found.wall_s.low <= found.wall_s.expected


def test_each_run_is_charged_by_itself() -> None:
    hourly = Offer(
        backend="a", price_microusd_per_hour=1_000_000, max_run_s=5400.0, billing=Billing(step_s=3600)
    )
    work_s = 2 * (5400.0 - HANDOVER_S)
    run = RunEstimate(training_s=Span.exactly(work_s), setup_s=0, resumes=True)
    found = estimate_bill(hourly, run, Overheads(boot_s=0))
    assert found.runs == 2
    assert found.cost_microusd.expected == 4_000_000  # twice an hour and a half, in whole hours


def test_a_machine_that_nobody_ends_runs_once() -> None:
    assert (
        estimate_bill(FREE_TO_RUN, RunEstimate(training_s=Span.exactly(1e7), resumes=True), Overheads()).runs
        == 1
    )
