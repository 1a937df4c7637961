"""Every field of a job spec does something: a machine is chosen by it, the agent gets it, or the job is refused.

A new field fails here until it has an entry in FIELDS.
"""

import ast
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import Any, get_args

import pytest
from tests.unit.control.jobs_in_states import training, view

from anygpu.control.agents.assignment import build_assignment
from anygpu.control.jobs import require_supported
from anygpu.control.policy import ControlPolicy
from anygpu.errors import InvalidSpec
from anygpu.events.offers import Offer
from anygpu.plan.offers.fit import unfit_reason
from anygpu.spec.fields import SpecModel
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.load import from_mapping

ROOT = Path(__file__).resolve().parents[3]
MACHINE = Offer(
    backend="aws",
    name="g5.xlarge",
    region="eu-west-1",
    zone="eu-west-1a",
    gpu_kind="A10G",
    gpu_count=4,
    gpu_memory_gib=24,
    cpus=16,
    memory_gib=64,
    disk_gib=200,
    max_nodes=4,
    containers=True,
)
SHA = "a" * 64


@dataclass(frozen=True)
class Chooses:
    """With these fields the job fits MACHINE, and not a machine that differs in `other`."""

    spec: dict[str, Any]
    other: dict[str, Any]


@dataclass(frozen=True)
class Assigned:
    """The agent gets `value` under `key`."""

    spec: dict[str, Any]
    key: str
    value: Any


@dataclass(frozen=True)
class Refused:
    """A job with these fields is refused at `place`."""

    spec: dict[str, Any]
    place: str


@dataclass(frozen=True)
class Proven:
    """A test of this file shows what the field does."""

    file: str
    test: str


TABLE = {"trainer": "tabular", "dataset": "/d.csv", "config": {"target": "y"}}
ARGV = ["python", "-m", "anygpu.trainers", "tabular", '{"target": "y"}']
PLACES = "tests/unit/plan/offers/test_fit.py"
JOBS = "tests/acceptance/cli/test_jobs.py"
MOVES = "tests/unit/control/schedule/test_migration.py"
ACCEPTED = "tests/acceptance/server/test_accepted_requests.py"

FIELDS: dict[str, Chooses | Assigned | Refused | Proven] = {
    "script": Assigned({"script": "a.py"}, "argv", ["python", "a.py"]),
    "args": Assigned({"args": ["--lr", "1"]}, "argv", ["python", "train.py", "--lr", "1"]),
    "command": Assigned({"script": None, "command": "make"}, "shell", "make"),
    "trainer": Assigned({"script": None, **TABLE}, "argv", ARGV),
    "config": Assigned({"script": None, **TABLE}, "argv", ARGV),
    "code": Assigned({"script": None, "code": "print(1)"}, "code", "print(1)"),
    "name": Proven(JOBS, "test_a_job_is_found_by_id_beginning_name_and_last"),
    "tags": Proven(JOBS, "test_lists_are_filtered_by_status_tag_name_and_text"),
    "env": Assigned({"env": {"WORKERS": "4"}}, "env", {"WORKERS": "4"}),
    "secrets": Proven(JOBS, "test_a_secret_reaches_the_job_and_is_masked_in_its_output"),
    "workdir.path": Proven(
        "tests/acceptance/cli/test_in_place.py", "test_a_job_file_runs_in_its_own_directory"
    ),
    "workdir.manifest": Proven(
        "tests/acceptance/cli/test_snapshots.py", "test_only_changed_files_are_sent_again"
    ),
    "workdir.root": Proven(
        "tests/acceptance/cli/test_snapshots.py",
        "test_a_script_elsewhere_runs_in_place_here_and_in_a_copy_there",
    ),
    "workdir.snapshot": Proven("tests/acceptance/cli/test_in_place.py", "test_a_snapshot_runs_in_a_copy"),
    "workdir.ignore": Proven(
        "tests/unit/spec/test_ignore.py", "test_our_own_ignore_file_wins_over_git_and_the_spec_over_both"
    ),
    "workdir.subdir": Assigned({"workdir": {"subdir": "sub"}}, "subdir", "sub"),
    "workdir.archive": Proven(
        "tests/contracts/agent/test_steps.py", "test_the_archive_becomes_the_working_directory"
    ),
    "setup": Assigned({"setup": ["make data"]}, "setup", ["make data"]),
    "requirements": Assigned({"requirements": ["numpy"]}, "requirements", ["numpy"]),
    "image": Chooses({"image": "python:3.11"}, {"containers": False}),
    "python": Assigned({"python": "3.11"}, "python", "3.11"),
    "dataset.path": Assigned(
        {"dataset": "/d"}, "dataset", {"path": "/d", "url": None, "sha256": None, "parts": []}
    ),
    "dataset.url": Assigned(
        {"dataset": "http://h/d"}, "dataset", {"path": None, "url": "http://h/d", "sha256": None, "parts": []}
    ),
    "dataset.name": Refused({"dataset": {"name": "coco"}}, "dataset"),
    "dataset.version": Refused({"dataset": "coco@2"}, "dataset"),
    "dataset.parts": Proven(
        "tests/contracts/agent/test_inputs.py", "test_a_dataset_that_was_uploaded_in_parts_is_unpacked"
    ),
    "outputs": Assigned({"outputs": ["runs/**"]}, "outputs", ["runs/**"]),
    "checkpoint.every_s": Assigned({"checkpoint": {"every": "1m"}}, "checkpoint.every_s", 60.0),
    "checkpoint.paths": Assigned({"checkpoint": {"paths": "*.pt"}}, "checkpoint.paths", ["*.pt"]),
    "checkpoint.resume_args": Assigned(
        {"checkpoint": {"resume_args": "--resume {path}"}}, "checkpoint.resume_args", ["--resume", "{path}"]
    ),
    "checkpoint.keep": Assigned({"checkpoint": {"keep": 5}}, "checkpoint.keep", 5),
    "checkpoint.any_world_size": Proven(
        "tests/unit/control/test_jobs.py", "test_a_job_resumes_with_the_same_number_of_processes"
    ),
    "resume_from": Proven(ACCEPTED, "test_a_job_begins_at_a_checkpoint_of_another_job"),
    "resources.gpu.count": Chooses({"resources": {"gpu": 4}}, {"gpu_count": 2}),
    "resources.gpu.kind": Chooses({"resources": {"gpu": "A10G"}}, {"gpu_kind": "T4"}),
    "resources.gpu.memory_gib": Chooses({"resources": {"gpu": "24G"}}, {"gpu_memory_gib": 16}),
    "resources.cpus": Chooses({"resources": {"cpus": 16}}, {"cpus": 8}),
    "resources.memory_gib": Chooses({"resources": {"memory": "64G"}}, {"memory_gib": 32}),
    "resources.disk_gib": Chooses({"resources": {"disk": "200G"}}, {"disk_gib": 100}),
    "resources.nodes": Chooses({"resources": {"nodes": 4}}, {"max_nodes": 2}),
    "launcher": Assigned({"launcher": "torchrun"}, "ranks.launcher", "torchrun"),
    "processes_per_node": Assigned(
        {"launcher": "torchrun", "processes_per_node": 2}, "ranks.processes_per_node", 2
    ),
    "limits.timeout_s": Assigned({"limits": {"timeout": "1h"}}, "timeout_s", 3600.0),
    "limits.max_cost_microusd": Proven(
        "tests/acceptance/machines/test_bad_input.py",
        "test_a_budget_is_kept_by_saving_first_and_never_exceeded",
    ),
    "limits.deadline_s": Proven(
        "tests/acceptance/machines/test_deadline.py",
        "test_taken_back_on_spot_it_is_done_on_demand_before_its_deadline",
    ),
    "limits.deadline_at": Proven(
        "tests/unit/control/schedule/test_deadline.py",
        "test_a_deadline_is_counted_from_submission_or_is_an_instant",
    ),
    "limits.max_retries": Proven(
        "tests/unit/control/reconcile/test_verdict.py", "test_retries_that_count_run_out"
    ),
    "placement.strategy": Proven(MOVES, "test_by_its_strategy_a_job_goes_for_money_or_for_time"),
    "placement.fallbacks": Proven(PLACES, "test_fallbacks_are_tried_in_the_order_given"),
    "placement.allowed": Chooses({"placement": {"allowed": ["aws"]}}, {"backend": "lab"}),
    "placement.forbidden": Chooses({"placement": {"forbidden": ["lab"]}}, {"backend": "lab"}),
    "placement.paid": Proven(
        "tests/unit/plan/offers/test_consent.py",
        "test_a_paid_offer_without_consent_is_rejected_and_the_reason_names_the_option",
    ),
    "placement.profile": Chooses({"placement": {"profile": "aws"}}, {"backend": "lab"}),
    "placement.region": Chooses({"placement": {"region": "eu-west-1"}}, {"region": "us-east-1"}),
    "placement.zone": Chooses({"placement": {"zone": "eu-west-1a"}}, {"zone": "eu-west-1b"}),
    "placement.instance_type": Chooses({"placement": {"instance_type": "g5.xlarge"}}, {"name": "g5.2xlarge"}),
    "placement.interruptible": Chooses({"placement": {"interruptible": "no"}}, {"interruptible": True}),
    "placement.dedicated": Chooses({"placement": {"dedicated": True}}, {"shared": True}),
    "placement.hold_on_failure_s": Proven(
        "tests/unit/control/reconcile/test_decide.py", "test_a_kept_machine_is_let_go_when_the_budget_is"
    ),
    "placement.expected_duration_s": Proven(
        "tests/unit/plan/offers/test_ranking.py", "test_what_a_time_is_predicted_from_is_said"
    ),
    "placement.move": Proven(MOVES, "test_the_word_of_the_job_wins_over_the_servers"),
    "track.mlflow": Refused({"track": {"mlflow": True}}, "track.mlflow"),
    "track.wandb": Refused({"track": {"wandb": True}}, "track.wandb"),
    "track.tensorboard": Refused({"track": {"tensorboard": True}}, "track.tensorboard"),
    "track.tags": Refused({"track": {"tags": ["a"]}}, "track.tags"),
    "notify.to": Refused({"notify": ["https://example.org/hook"]}, "notify"),
    "notify.on": Refused({"notify": {"to": "a@b.org", "on": ["failed"]}}, "notify"),
    "priority": Proven(
        "tests/unit/control/schedule/test_queue_order.py",
        "test_a_higher_priority_goes_first_and_who_waited_a_day_before_that",
    ),
    "idempotency_key": Proven(
        "tests/acceptance/server/test_access.py", "test_the_same_idempotency_key_is_the_same_job"
    ),
}


def field_paths(model: type[SpecModel], prefix: str = "") -> list[str]:
    """The paths of all fields; a section stands for the fields in it."""
    paths = []
    for name, info in model.model_fields.items():
        section = section_of(info.annotation)
        paths += field_paths(section, f"{prefix}{name}.") if section else [prefix + name]
    return paths


def section_of(annotation: Any) -> type[SpecModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, SpecModel):
        return annotation
    parts = [part for part in get_args(annotation) if part not in (NoneType, ...)]
    return next((found for part in parts if (found := section_of(part))), None)


def test_every_field_has_an_entry_and_no_entry_is_for_a_field_that_is_gone() -> None:
    assert set(field_paths(JobSpec)) == set(FIELDS)


def entries(kind: type[Any]) -> list[Any]:
    return [pytest.param(entry, id=name) for name, entry in FIELDS.items() if isinstance(entry, kind)]


@pytest.mark.parametrize("entry", entries(Chooses))
def test_the_field_decides_which_machines_fit(entry: Chooses) -> None:
    spec = from_mapping({"script": "train.py", **entry.spec})
    require_supported(spec, may_run_in_place=True)
    assert unfit_reason(spec, MACHINE) == ""
    assert unfit_reason(spec, replace(MACHINE, **entry.other)) != ""


@pytest.mark.parametrize("entry", entries(Assigned))
def test_the_agent_gets_the_field(entry: Assigned) -> None:
    job = view(*training(), **entry.spec)
    require_supported(job.spec, may_run_in_place=True)
    found: Any = build_assignment(
        job, job.attempts[0], ControlPolicy(), secrets={}, archive=None, resume=None
    )
    for key in entry.key.split("."):
        found = found[key]
    assert found == entry.value


@pytest.mark.parametrize("entry", entries(Refused))
def test_the_job_is_refused_because_of_the_field(entry: Refused) -> None:
    with pytest.raises(InvalidSpec) as refused:
        require_supported(from_mapping({"script": "train.py", **entry.spec}), may_run_in_place=True)
    assert [problem.place for problem in refused.value.problems] == [entry.place]
    assert refused.value.problems[0].suggestion


@pytest.mark.parametrize("entry", entries(Proven))
def test_the_named_test_exists(entry: Proven) -> None:
    tree = ast.parse((ROOT / entry.file).read_text(encoding="utf-8"))
    names = {each.name for each in ast.walk(tree) if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)}
    assert entry.test in names
