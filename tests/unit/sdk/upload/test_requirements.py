import pytest

from anygpu.errors import InvalidSpec
from anygpu.sdk import Requirements
from anygpu.sdk.platform import merge_specs
from anygpu.sdk.upload.requirements import placement_from
from anygpu.spec import from_mapping


def test_requirements_become_a_valid_spec() -> None:
    needs = Requirements(
        gpu_memory_gb=16,
        duration_hours_estimated=3,
        checkpoint_frequency_minutes=30,
        interruptible=True,
        max_cost_usd=10.00,
    )
    wishes = {"placement": placement_from({"optimize_for": "cost", "allowed_backends": None})}
    spec = from_mapping(merge_specs(needs.spec(), wishes, {"code": "print(1)"}))
    assert spec.resources.gpu is not None
    assert spec.resources.gpu.memory_gib == 16
    assert spec.limits.max_cost_microusd == 10_000_000
    assert spec.checkpoint.every_s == 1800
    assert spec.placement.expected_duration_s == 3 * 3600
    assert (spec.placement.interruptible, spec.placement.strategy) == ("yes", "cheapest")


def test_unset_values_are_not_in_the_spec() -> None:
    assert Requirements().spec() == {}


def test_every_requirement_sets_a_spec_field() -> None:
    needs = Requirements(
        gpu_count=2,
        gpu_kind="A100",
        cpus=4,
        memory_gb=32,
        disk_gb=100,
        timeout_hours=2,
        deadline_hours=5,
        max_retries=1,
        interruptible=False,
    )
    spec = from_mapping({"code": "pass", **needs.spec()})
    assert spec.resources.gpu is not None
    assert (spec.resources.gpu.count, spec.resources.gpu.kind) == (2, "A100")
    assert (spec.resources.cpus, spec.resources.memory_gib, spec.resources.disk_gib) == (4, 32, 100)
    assert (spec.limits.timeout_s, spec.limits.deadline_s, spec.limits.max_retries) == (7200, 18000, 1)
    assert spec.placement.interruptible == "no"


def test_a_misspelt_preference_gets_a_suggestion() -> None:
    with pytest.raises(InvalidSpec, match="did you mean 'optimize_for'"):
        placement_from({"optimise_for": "cost"})


def test_later_mappings_override_earlier_ones() -> None:
    assert merge_specs({"limits": {"timeout": 1, "max_cost": 2}}, {"limits": {"timeout": 3}}) == {
        "limits": {"timeout": 3, "max_cost": 2}
    }
