"""Where a job could run, and why not."""

from dataclasses import replace
from typing import Any

import pytest
from tests.unit.plan.offers.candidate_builders import as_candidates

from anygpu.events.offers import Offer
from anygpu.plan.analyse.script import analyse
from anygpu.plan.offers.candidates import Candidate
from anygpu.plan.offers.comparison import rank
from anygpu.plan.offers.fit import has_resume_path, unsuitable_reason
from anygpu.plan.offers.selection import JobConstraints, fit, make_plan
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.load import from_mapping

BOX = Offer(backend="box", cpus=8, memory_gib=32, free=1)
FULL = Offer(backend="full", cpus=8, free=0, wait_reason="all slots of full are taken")
A100 = Offer(
    backend="cloud",
    name="a2",
    region="eu",
    gpu_kind="NVIDIA A100",
    gpu_count=1,
    gpu_memory_gib=40,
    price_microusd_per_hour=3_000_000,
    interruptible=True,
)


def spec(**fields: Any) -> JobSpec:
    """A job that may use paid machines."""
    placement = {"paid": True, **fields.pop("placement", {})}
    checkpoint = {"paths": ["*.pt"], "resume_args": ["--resume"]}
    return from_mapping({"script": "train.py", "checkpoint": checkpoint, "placement": placement, **fields})


NO_RESUME = (
    "can be interrupted, and nothing shows that the job can resume; load the checkpoint that"
    " anygpu.resume_path() returns, or set checkpoint.resume_args, or interruptible: yes"
)
UNFIT = [
    (
        BOX,
        {"placement": {"allowed": ["cloud"]}},
        "not among the allowed backends (placement.allowed or --on)",
    ),
    (BOX, {"placement": {"forbidden": ["box"]}}, "forbidden by the job (placement.forbidden)"),
    (A100, {"placement": {"region": "us"}}, "is not in region us"),
    (replace(A100, zone="eu-a"), {"placement": {"zone": "eu-b"}}, "is not known to be in zone eu-b"),
    (A100, {"placement": {"zone": "eu-c"}}, "is not known to be in zone eu-c"),
    (A100, {"placement": {"instance_type": "p4d"}}, "is not a p4d"),
    (
        A100,
        {"placement": {"interruptible": "no"}},
        "can be interrupted (spot), and the job does not allow that",
    ),
    (replace(A100, refused="over its limit"), {}, "over its limit"),
    (
        BOX,
        {"workdir": {"path": "/home/me"}},
        "has no copy of the job's files: the job runs in place, in /home/me; submit it with --snapshot",
    ),
    (A100, {"checkpoint": {}}, NO_RESUME),
    (A100, {"checkpoint": {"paths": ["*.pt"]}}, NO_RESUME),
    (BOX, {"resources": {"gpu": 1}}, "has no GPU, the job needs 1"),
    (A100, {"resources": {"gpu": 2}}, "has 1 GPU, the job needs 2"),
    (A100, {"resources": {"gpu": "H100"}}, "has NVIDIA A100, the job needs H100"),
    (A100, {"resources": {"gpu": {"count": 1, "memory_gib": 80}}}, "has 40 GiB per GPU, the job needs 80"),
    (
        BOX,
        {"resources": {"nodes": 2}},
        "runs a job on one machine only, the job needs 2 (resources.nodes)",
    ),
    (
        replace(BOX, max_nodes=3),
        {"resources": {"nodes": 4}},
        "gives a job at most 3 machines, the job needs 4 (resources.nodes)",
    ),
    (BOX, {"resources": {"cpus": 16}}, "has 8 CPUs, the job needs 16"),
    (BOX, {"resources": {"memory_gib": 64}}, "has 32 GiB of memory, the job needs 64"),
]


def test_of_equal_offers_the_servers_machine_is_first() -> None:
    here = replace(BOX, backend="local")
    plan = make_plan(spec(), as_candidates([BOX, here]))
    assert [result.offer.backend for result in plan.ranked] == ["local", "box"]


def test_a_job_in_place_fits_the_servers_machine_and_a_copy_fits_others() -> None:
    here = replace(BOX, backend="local")
    assert unsuitable_reason(spec(workdir="/home/me"), here) == ""
    assert unsuitable_reason(spec(workdir={"path": "/home/me", "archive": "0" * 64}), BOX) == ""


@pytest.mark.parametrize(("offer", "fields", "reason"), UNFIT, ids=[row[2] for row in UNFIT])
def test_an_offer_that_can_never_take_the_job_says_why(
    offer: Offer, fields: dict[str, Any], reason: str
) -> None:
    assert fit(spec(**fields), Candidate.from_offer(offer)).rejection == reason


def test_a_free_slot_of_ones_own_is_taken_before_a_paid_one() -> None:
    assert make_plan(spec(), as_candidates([A100, BOX])).choice == BOX


def test_a_full_place_waits_and_the_next_one_is_taken() -> None:
    plan = make_plan(spec(), as_candidates([FULL, A100]))
    assert plan.choice == A100
    assert [ranked.offer.backend for ranked in plan.ranked] == ["cloud", "full"]


def test_fallbacks_are_tried_in_the_order_given() -> None:
    assert (
        make_plan(spec(placement={"fallbacks": ["cloud", "box"]}), as_candidates([BOX, A100])).choice == A100
    )


def test_a_job_nobody_can_take_now_is_told_what_it_waits_for() -> None:
    plan = make_plan(spec(resources={"cpus": 4}), as_candidates([FULL]))
    assert plan.choice is None
    assert plan.reason == "all slots of full are taken"


def test_a_job_nobody_can_ever_take_is_told_all_the_reasons() -> None:
    plan = make_plan(spec(resources={"gpu": "H100"}), as_candidates([BOX, A100]))
    assert plan.reason == "box: has no GPU, the job needs 1; cloud: has NVIDIA A100, the job needs H100"
    assert make_plan(spec(), as_candidates([])).reason == "no backend is configured"


RESUMABLE = [{"checkpoint": {"resume_args": ["--resume", "{path}"]}}, {"placement": {"interruptible": "yes"}}]


@pytest.mark.parametrize("fields", RESUMABLE)
def test_an_interruptible_place_is_taken_when_the_job_says_that_it_may(fields: dict[str, Any]) -> None:
    assert fit(spec(**{"checkpoint": {}, **fields}), Candidate.from_offer(A100)).rejection == ""


def test_a_job_that_has_a_checkpoint_and_every_trainer_may_be_interrupted() -> None:
    assert (
        fit(spec(checkpoint={}), Candidate.from_offer(A100), JobConstraints(resumable=True)).rejection == ""
    )
    assert (
        fit(
            from_mapping({"trainer": "mlp", "placement": {"paid": True}}), Candidate.from_offer(A100)
        ).rejection
        == ""
    )


def test_a_job_that_may_be_interrupted_takes_a_place_of_its_own_all_the_same() -> None:
    assert make_plan(spec(placement={"interruptible": "yes"}), as_candidates([A100, BOX])).choice == BOX


UNREACHABLE = Offer(backend="lab", free=0, wait_reason="lab: the host does not answer", answered=False)


@pytest.mark.parametrize(
    "fields",
    [{}, {"resources": {"gpu": "A100:8", "nodes": 4}}, {"placement": {"region": "eu"}}, {"image": "torch:2"}],
)
def test_a_job_waits_for_a_backend_that_does_not_answer_whatever_it_needs(fields: dict[str, Any]) -> None:
    plan = make_plan(spec(**fields), as_candidates([UNREACHABLE]))
    assert (plan.choice, plan.reason) == (None, "lab: the host does not answer")
    excluded = spec(**{**fields, "placement": {"forbidden": ["lab"]}})
    assert make_plan(excluded, as_candidates([UNREACHABLE])).reason.endswith("(placement.forbidden)")


def test_a_budget_is_not_too_small_while_a_backend_does_not_answer() -> None:
    poor = JobConstraints(budget_left_microusd=1, min_run_s=3600)
    assert not make_plan(spec(), as_candidates([A100, UNREACHABLE]), poor).beyond_budget


def test_a_comparison_rejects_a_backend_that_does_not_answer_with_the_reason() -> None:
    comparison = rank(spec(), as_candidates([BOX, UNREACHABLE]))
    assert [each.candidate.offer for each in comparison.ranked] == [BOX]
    assert [each.rejection for each in comparison.rejected] == ["lab: the host does not answer"]


def test_a_closed_place_waits_and_an_avoided_one_comes_last() -> None:
    other = replace(A100, backend="other", price_microusd_per_hour=9_000_000)
    closed = JobConstraints(cooldowns=((A100.key, "refused"),))
    avoided = JobConstraints(avoided=frozenset({A100.key}))
    assert make_plan(spec(), as_candidates([A100]), closed).reason == "refused"
    assert make_plan(spec(), as_candidates([A100, other]), closed).choice == other
    assert make_plan(spec(), as_candidates([A100, other]), avoided).choice == other
    assert make_plan(spec(), as_candidates([A100]), avoided).choice == A100


def test_no_offer_of_a_backend_that_could_not_be_reached_is_used_now() -> None:
    outage = JobConstraints(outages=((A100.backend, "refused the connection"),))
    others = [A100, replace(A100, name="another"), replace(A100, backend="other", name="far")]
    assert make_plan(spec(), as_candidates(others[:2]), outage).reason == "refused the connection"
    assert make_plan(spec(), as_candidates(others), outage).choice == others[2]


def test_only_a_budget_in_the_way_is_told_apart_from_other_reasons() -> None:
    poor = JobConstraints(budget_left_microusd=1, min_run_s=60)
    assert make_plan(spec(), as_candidates([A100]), poor).beyond_budget
    assert not make_plan(spec(resources={"gpu": "H100"}), as_candidates([A100]), poor).beyond_budget
    assert make_plan(spec(), as_candidates([A100, BOX]), poor).choice == BOX
    assert not make_plan(spec(), as_candidates([A100, FULL]), poor).beyond_budget


def test_the_reason_says_each_thing_once_and_leaves_out_what_nobody_asked_for() -> None:
    other = replace(A100, backend="other")
    wanted = spec(placement={"allowed": ["cloud"], "instance_type": "none"})
    assert make_plan(wanted, as_candidates([A100, A100, other])).reason == "cloud: is not a none"
    assert "not among the allowed" in make_plan(wanted, as_candidates([other])).reason


@pytest.mark.parametrize(
    ("asked", "offered", "will_do"),
    [
        ("A10", "NVIDIA A100-SXM4-40GB", False),
        ("A100", "NVIDIA A100-SXM4-80GB", True),
        ("L4", "L40S", False),
        ("RTX 3060", "NVIDIA GeForce RTX 3060", True),
        ("Quadro K2200", "Tesla T4", False),
    ],
)
def test_a_gpu_is_what_was_asked_for_by_its_kind_not_by_its_letters(
    asked: str, offered: str, will_do: bool
) -> None:
    spec = from_mapping({"script": "train.py", "resources": {"gpu": asked}})
    why_not = unsuitable_reason(spec, Offer(backend="box", gpu_kind=offered, gpu_count=1))
    assert (why_not == "") is will_do


ONLY_FILES: dict[str, Any] = {"checkpoint": {"paths": ["*.pt"]}}
RESTARTED = (
    "can be interrupted, and the job started from the beginning after its last interruption;"
    " set interruptible: yes to accept this"
)


@pytest.mark.parametrize(
    ("fields", "resumable", "reason"),
    [
        ({}, None, ""),
        (ONLY_FILES, None, NO_RESUME),
        (ONLY_FILES, True, ""),
        (ONLY_FILES, False, RESTARTED),
        ({}, False, RESTARTED),
        ({"placement": {"interruptible": "yes"}}, False, ""),
        ({**ONLY_FILES, "placement": {"interruptible": "yes"}}, None, ""),
    ],
)
def test_spot_needs_evidence_that_the_job_resumes_or_consent(
    fields: dict[str, Any], resumable: bool | None, reason: str
) -> None:
    assert (
        fit(spec(**fields), Candidate.from_offer(A100), JobConstraints(resumable=resumable)).rejection
        == reason
    )


SAVES = "import torch\nfor epoch in range(9):\n    torch.save(state, 'ckpt/last.pt')\n"
OPTION = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--resume', default='')\n"
LOADS = "import os, torch\nif os.path.exists('a.pt'):\n    optimizer.load_state_dict(torch.load('a.pt'))\n"
VARIABLE = (
    "import os, torch\npath = os.environ.get('ANYGPU_RESUME_PATH')\nif path:\n    model = torch.load(path)\n"
)
CALL = "import anygpu, torch\npath = anygpu.resume_path()\nif path:\n    model = torch.load(path)\n"


@pytest.mark.parametrize(
    ("code", "resumes"),
    [
        (SAVES, False),
        (OPTION + SAVES, False),
        (LOADS + SAVES, True),
        (VARIABLE + SAVES, True),
        (CALL + SAVES, True),
        (CALL, False),
    ],
    ids=["only saves", "an option that nobody passes", "loads", "variable", "resume_path", "never saves"],
)
def test_code_that_loads_its_state_is_a_way_to_resume(code: str, resumes: bool) -> None:
    assert has_resume_path(spec(checkpoint={}), analyse(code)) is resumes


def test_the_checkpoint_paths_of_the_spec_are_what_the_code_saves() -> None:
    assert has_resume_path(spec(**ONLY_FILES), analyse(CALL))
