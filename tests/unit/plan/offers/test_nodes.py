"""Plans for jobs with several nodes: what they cost, when they fit, and when fewer nodes are better."""

from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.plan.offers.candidate_builders import as_candidates
from tests.unit.plan.offers.test_comparison import SCRIPT

from anygpu.events.offers import Billing, Offer
from anygpu.plan.analyse.findings import Analysis
from anygpu.plan.analyse.job import analyse_job
from anygpu.plan.analyse.script import analyse
from anygpu.plan.catalog import CatalogLayers, candidates_in, load_catalog
from anygpu.plan.hardware import gpus
from anygpu.plan.hardware.networks import Network, find_network
from anygpu.plan.offers.bill import Overheads, RunEstimate, Span, estimate_bill
from anygpu.plan.offers.comparison import RankedOffer, comparison_as_dict, rank
from anygpu.plan.offers.nodes import compare_with_one_node
from anygpu.plan.offers.providers import provider_comparison
from anygpu.plan.offers.selection import JobConstraints, fit
from anygpu.plan.predict.history import PastRun, RunMachine, fingerprint, past_durations
from anygpu.plan.predict.step_time import OVERLAP, Effort, StepWork, all_reduce_s, step_duration
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.load import from_mapping

DDP = SCRIPT.replace("opt =", "model = torch.nn.parallel.DistributedDataParallel(model)\nopt =")
GANG = Offer(
    backend="cloud",
    name="p4d.24xlarge",
    gpu_kind="A100-40GB",
    gpu_count=8,
    gpu_memory_gib=40,
    price_microusd_per_hour=20_000_000,
    max_nodes=16,
)
A100 = gpus.specs()["A100-40GB"]
# 7 thousand million parameters: 28 GB of gradients
LARGE = StepWork(batch=8, gmacs=7000, mega_activations=10, mega_parameters=7000, gradient_mb=28_000)


def job(nodes: int, **more: Any) -> JobSpec:
    resources = {"gpu": 8, "nodes": nodes, **more.pop("resources", {})}
    return from_mapping({"script": "train.py", "resources": resources, **more})


def ranked(spec: JobSpec, *offers: Offer, code: str = DDP) -> list[RankedOffer]:
    return list(rank(spec, as_candidates(offers), analyse_job(spec, {"train.py": code})).ranked)


def test_every_node_is_billed_by_the_rule_of_its_provider() -> None:
    offer = replace(GANG, billing=Billing(step_s=3600, minimum_s=3600))
    run = RunEstimate(training_s=Span.exactly(600), nodes=4)
    bill = estimate_bill(offer, run, Overheads())
    assert bill.cost_microusd.expected == 4 * 20_000_000
    assert bill.nodes == 4


@settings(deadline=None)
@given(st.integers(1, 64), st.floats(1, 1e6), st.integers(0, 50_000_000), st.sampled_from((1, 60, 3600)))
def test_nodes_cost_their_number_times_one_node_for_the_same_time(
    nodes: int, training_s: float, price: int, step_s: int
) -> None:
    offer = replace(GANG, price_microusd_per_hour=price, billing=Billing(step_s=step_s))
    run = RunEstimate(training_s=Span.exactly(training_s))
    one = estimate_bill(offer, run, Overheads())
    all_nodes = estimate_bill(offer, replace(run, nodes=nodes), Overheads())
    assert all_nodes.wall_s == one.wall_s
    assert abs(all_nodes.cost_microusd.expected - nodes * one.cost_microusd.expected) <= nodes


@given(st.integers(2, 32), st.floats(600, 1e5))
def test_spot_machines_interrupt_a_job_more_often_the_more_nodes_it_has(
    nodes: int, training_s: float
) -> None:
    spot = replace(GANG, interruptible=True)
    run = RunEstimate(training_s=Span.exactly(training_s), resumes=True)
    one, many = (estimate_bill(spot, replace(run, nodes=count), Overheads()) for count in (1, nodes))
    assert many.interruptions_s > one.interruptions_s
    assert many.checkpoint_every_s < one.checkpoint_every_s


def test_the_plan_shows_the_nodes_the_total_price_and_the_price_of_one() -> None:
    spec = job(2)
    comparison = rank(spec, as_candidates([GANG]), analyse_job(spec, {"train.py": DDP}))
    (entry,) = comparison_as_dict(comparison, None)["offers"]
    assert (entry["nodes"], entry["price_microusd_per_hour"]) == (2, 20_000_000)
    assert entry["total_price_microusd_per_hour"] == 40_000_000
    assert entry["interconnect"] == "efa (400 Gbit/s)"
    (provider,) = provider_comparison(comparison)["providers"]
    assert (provider["nodes"], provider["total_price_microusd_per_hour"]) == (2, 40_000_000)


def test_an_offer_with_too_few_machines_is_rejected_or_waits_with_the_reason() -> None:
    spec = job(4)
    (small, busy) = as_candidates([replace(GANG, max_nodes=2), replace(GANG, free=3)])
    assert fit(spec, small).rejection == "gives a job at most 2 machines, the job needs 4 (resources.nodes)"
    waiting = fit(spec, busy, JobConstraints(allow_paid=True))
    assert not waiting.rejection
    assert waiting.wait_reason == "3 of the 4 machines that the job needs are free"
    (listed,) = rank(spec, [busy]).ranked
    assert rank(spec, as_candidates([replace(GANG, free=4)])).ranked[0].score < listed.score


def test_the_budget_pays_for_all_nodes() -> None:
    limits = JobConstraints(budget_left_microusd=30_000_000, min_run_s=3600, allow_paid=True)
    (candidate,) = as_candidates([GANG])
    assert not fit(job(1), candidate, limits).rejection
    assert "costs at least $40.0000" in fit(job(2), candidate, limits).rejection


def test_two_nodes_over_a_slow_network_are_worse_than_one() -> None:
    effort = Effort(work=LARGE, batches=10_000)
    slow = Network("ethernet", 10, is_assumed=False)
    reason = compare_with_one_node(effort, A100, nodes=2, gpus=8, network=slow)
    assert reason.startswith("2 nodes: all-reduce over ethernet (10 Gbit/s) takes 52")
    assert reason.endswith("s per step; 1 node is faster and cheaper")
    fast = Network("efa", 3200, is_assumed=False)
    assert compare_with_one_node(effort, A100, nodes=2, gpus=8, network=fast) == ""
    middle = Network("efa", 260, is_assumed=False)
    assert "times as fast as 1 node, at" in compare_with_one_node(
        effort, A100, nodes=2, gpus=8, network=middle
    )


def test_the_plan_prefers_a_fast_network_and_says_why_the_slow_one_is_bad() -> None:
    code = DDP.replace("resnet50", "vit_huge_patch14_224").replace("batch_size=64", "batch_size=4")
    slow = replace(GANG, name="plain", interconnect="ethernet")
    fast, plain = ranked(job(2), slow, GANG, code=code)
    assert (fast.candidate.offer.name, plain.candidate.offer.name) == ("p4d.24xlarge", "plain")
    assert plain.bill.wall_s.expected > fast.bill.wall_s.expected
    assert "1 node is faster and cheaper" in plain.nodes_reason
    assert plain.nodes_reason in plain.cons


def test_code_that_uses_one_process_gains_nothing_from_nodes() -> None:
    (one,), (two,) = ranked(job(1), GANG, code=SCRIPT), ranked(job(2), GANG, code=SCRIPT)
    assert two.bill.wall_s.expected == one.bill.wall_s.expected
    assert (
        two.nodes_reason == "2 nodes: the code uses no distributed training, so 1 node is as fast and cheaper"
    )


def test_a_fixed_number_of_steps_is_not_divided_among_nodes() -> None:
    effort = Effort(work=LARGE, batches=10, sharing="nothing")
    reason = compare_with_one_node(effort, A100, nodes=2, gpus=8, network=None)
    assert "same number of steps on every node" in reason


@settings(deadline=None)
@given(st.integers(1, 8), st.integers(2, 32), st.floats(10, 3200), st.floats(10, 3200))
def test_a_faster_network_is_never_slower(gpu_count: int, nodes: int, one: float, other: float) -> None:
    slow, fast = (Network("ethernet", each, is_assumed=False) for each in sorted((one, other)))
    times = [
        step_duration(LARGE, A100, gpus=gpu_count, nodes=nodes, network=each).step_s for each in (slow, fast)
    ]
    assert times[0] >= times[1]


@settings(deadline=None)
@given(
    st.floats(0, 50_000),
    st.integers(1, 8),
    st.integers(1, 32),
    st.sampled_from(sorted(gpus.specs())),
    st.floats(1, 3200),
)
def test_a_step_is_at_least_the_exchange_that_nothing_hides(
    gradient_mb: float, gpu_count: int, nodes: int, kind: str, gbit_s: float
) -> None:
    work, gpu = replace(LARGE, gradient_mb=gradient_mb), gpus.specs()[kind]
    network = Network("ethernet", gbit_s, is_assumed=False)
    step_s = step_duration(work, gpu, gpus=gpu_count, nodes=nodes, network=network).step_s
    alone_s = step_duration(replace(work, gradient_mb=0), gpu, gpus=gpu_count, nodes=nodes).step_s
    exchange_s = all_reduce_s(work, gpu, gpus=gpu_count, nodes=nodes, network=network)
    assert alone_s <= step_s <= alone_s + exchange_s
    assert step_s >= exchange_s * (1 - OVERLAP)


def test_past_runs_on_as_many_nodes_count_more_than_the_formula() -> None:
    spec, seen = job(2), RunMachine(backend="cloud", gpu_kind="A100-40GB", gpu_count=8)
    analysis = analyse_job(spec, {"train.py": DDP})
    runs = [PastRun(machine=seen, training_s=5000.0)]
    duration = past_durations(spec, analysis, runs)
    assert duration is not None
    (listed,) = rank(spec, as_candidates([GANG]), analysis, duration=duration).ranked
    assert listed.basis == "history"
    assert listed.nodes_reason == ""
    assert fingerprint(job(2)) != fingerprint(job(1))
    assert fingerprint(job(1)) == fingerprint(job(1, resources={"gpu": 4}))


def test_an_unknown_network_makes_the_prediction_less_certain() -> None:
    known, unknown = ranked(job(2), GANG, replace(GANG, name="other", region="there"))
    assert find_network("other").is_assumed
    by_name = {each.candidate.offer.name: each.bill.wall_s for each in (known, unknown)}
    ratio = {name: wall.high / wall.expected for name, wall in by_name.items()}
    assert ratio["other"] > ratio["p4d.24xlarge"]


def with_gpus(resources: dict[str, Any], code: str, **more: Any) -> Analysis:
    spec = from_mapping({"script": "train.py", "resources": resources, **more})
    found = analyse_job(spec, {"train.py": code})
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ({"gpu": 4}, "The job asks for 4 GPUs, but the code uses no distributed training: only one"),
        (
            {"gpu": 1, "nodes": 2},
            "The job asks for 2 nodes, but the code uses no distributed training: every",
        ),
    ],
)
def test_code_that_cannot_use_the_gpus_it_asks_for_gets_a_lint(
    resources: dict[str, Any], message: str
) -> None:
    (lint,) = [each for each in with_gpus(resources, SCRIPT).lints if each.code == "unused-gpus"]
    assert lint.message.startswith(message)
    assert lint.file == "train.py"


@pytest.mark.parametrize(
    "code",
    [
        DDP,
        SCRIPT + "\nimport os; rank = int(os.environ['LOCAL_RANK'])",
        SCRIPT.replace(
            "import torch, timm", "import torch, timm\nfrom accelerate import Accelerator\na = Accelerator()"
        ),
        "import lightning as L\ntrainer = L.Trainer(devices=4)\ntrainer.fit(model)",
    ],
)
def test_distributed_code_gets_no_lint(code: str) -> None:
    found = with_gpus({"gpu": 4}, code)
    assert not [each for each in found.lints if each.code == "unused-gpus"]
    assert found.multi_gpu is not None
    assert found.gpus is not None
    assert found.gpus.value == 4


def test_one_gpu_needs_no_distributed_code() -> None:
    assert with_gpus({"gpu": 1}, SCRIPT).lints == analyse(SCRIPT, name="train.py").lints


def test_sharded_training_needs_less_memory_per_gpu_the_more_gpus_share_it() -> None:
    code = DDP.replace(
        "parallel.DistributedDataParallel", "distributed.fsdp.FullyShardedDataParallel"
    ).replace("resnet50", "vit_huge_patch14_224")
    few, many = (with_gpus({"gpu": 2, "nodes": nodes}, code).characteristics for nodes in (1, 8))
    assert few is not None
    assert many is not None
    assert many.gpu_memory_gb.value < few.gpu_memory_gb.value


def test_a_job_with_nodes_is_compared_with_clouds_that_have_no_backend_yet(tmp_path: Path) -> None:
    catalog = load_catalog(
        CatalogLayers(folder=tmp_path, edits=tmp_path / "edits.csv"), today=date(2026, 11, 18)
    )
    spec = from_mapping({"script": "train.py", "resources": {"gpu": "H100:8", "nodes": 4}})
    comparison = rank(
        spec, candidates_in(catalog, kinds={"ec2", "lambda"}), analyse_job(spec, {"train.py": DDP})
    )
    listed = {each.candidate.offer.backend: each for each in comparison.ranked}
    assert {"ec2", "gcp", "azure"} <= set(listed)
    assert all(each.bill.nodes == 4 for each in listed.values())
    assert {"ethernet (1000 Gbit/s)", "infiniband (3200 Gbit/s)"} <= {
        entry["interconnect"] for entry in comparison_as_dict(comparison, None, limit=None)["offers"]
    }
    reasons = [each.reason for each in comparison.rejections]
    assert "runs a job on one machine only, the job needs 4 (resources.nodes)" in reasons
    assert "ethernet (100 Gbit/s assumed)" in {
        entry["interconnect"]
        for entry in comparison_as_dict(comparison, None, limit=None)["offers"]
        if entry["backend"] == "ec2"
    }
