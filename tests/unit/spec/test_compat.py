"""Bodies of other shapes become the same spec, and their errors speak of their own keys."""

from typing import Any

import pytest

from anygpu.errors import InvalidSpec
from anygpu.spec import JobSpec, from_mapping
from anygpu.spec.compat import organisation_of, translate


def spec_of(body: Any) -> JobSpec:
    done = translate(body)
    return from_mapping(done.mapping, source="body", renamed=done.renamed)


def refusal(body: Any) -> str:
    with pytest.raises(InvalidSpec) as caught:
        spec_of(body)
    return str(caught.value)


def test_a_model_and_its_config_become_a_trainer_and_a_placement() -> None:
    config = {
        "epochs": 3,
        "executor": "aws",
        "instance_type": "g4dn.xlarge",
        "allow_spot_instances": True,
        "max_retries": 2,
        "dataset_path": "data/cats",
        "resume_from": "0198f",
    }
    spec = spec_of({"model_name": "resnet50", "config": config})
    assert (spec.trainer, spec.config) == ("resnet50", {"epochs": 3})
    assert (spec.placement.allowed, spec.placement.instance_type) == (("aws",), "g4dn.xlarge")
    assert (spec.placement.interruptible, spec.limits.max_retries, spec.resume_from) == ("yes", 2, "0198f")
    assert spec.dataset is not None
    assert spec.dataset.path == "data/cats"


def test_a_bare_model_name_asks_for_nothing_more() -> None:
    assert spec_of({"model_name": "resnet50"}) == from_mapping({"trainer": "resnet50"})


def test_an_orchestrated_job_keeps_its_parameters() -> None:
    spec = spec_of(
        {
            "tenant_id": "mine",
            "training_params": {"epochs": 10, "learning_rate": 0.001, "model_type": "detection"},
            "model_params": {"architecture": "yolo", "input_size": 640},
            "custom_name": "My training: job!",
            "wandb_tags": ["tag1", "tag2"],
        }
    )
    assert (spec.trainer, spec.name) == ("yolo", "My-training-job")
    assert spec.config == {"epochs": 10, "learning_rate": 0.001, "model_type": "detection", "input_size": 640}
    assert spec.tags == ("tag1", "tag2")


def test_requirements_become_resources_limits_and_a_strategy() -> None:
    needs = {
        "gpu_memory_gb": 16,
        "duration_hours_estimated": 3,
        "checkpoint_frequency_minutes": 30,
        "interruptible": True,
        "max_cost_usd": 10.00,
    }
    wishes = {"optimize_for": "cost", "allowed_backends": None}
    spec = spec_of({"code": "print(1)", "requirements": needs, "preferences": wishes})
    assert spec.resources.gpu is not None
    assert spec.resources.gpu.memory_gib == 16e9 / 2**30
    assert (spec.placement.expected_duration_s, spec.checkpoint.every_s) == (10800.0, 1800.0)
    assert (spec.limits.max_cost_microusd, spec.placement.interruptible) == (10_000_000, "yes")
    assert (spec.placement.strategy, spec.placement.allowed) == ("cheapest", ())


def test_requirements_that_say_nothing_of_a_gpu_ask_for_none() -> None:
    assert spec_of({"code": "x", "requirements": {"max_cost_usd": 1}}).resources.gpu is None


def test_a_body_of_our_own_shape_passes_unchanged() -> None:
    body = {"script": "a.py", "requirements": ["numpy"]}
    assert translate(body).mapping == body


def test_a_section_that_is_there_already_is_kept() -> None:
    spec = spec_of({"code": "x", "resources": {"gpu": "A100:2"}, "requirements": {"gpu_memory_gb": 40}})
    assert spec.resources.gpu is not None
    assert (spec.resources.gpu.kind, spec.resources.gpu.count) == (
        "A100",
        2,
    )


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            {"model_name": "a", "config": {"max_retries": "x"}},
            "body config.max_retries: 'x' should be a valid integer",
        ),
        (
            {"model_name": "a", "config": {"resume_from": "s3://b/k"}},
            "body config.resume_from: 's3://b/k' is not a job",
        ),
        ({"model_name": "a", "config": 5}, "body config: 5 is not a JSON object"),
        ({"model_name": {}}, "body model_name: a mapping of 0 should be a valid text"),
        ({"model_name": False}, "body model_name: must be a string"),
        ({"model_params": {}}, "body model_params.architecture: is required"),
        ({"model_params": {"architecture": "a"}, "custom_nam": 1}, "did you mean 'custom_name'?"),
        ({"code": "x", "requirements": {"gpu_mem": 1}}, "did you mean 'requirements.gpu_memory_gb'?"),
        (
            {"code": "x", "requirements": {"max_cost_usd": -1}},
            "body requirements.max_cost_usd: -1 is not an amount",
        ),
        ({"code": "x", "preferences": {"optimize_for": "sped"}}, "did you mean 'speed'?"),
        (
            {"model_name": "a", "placement": 5, "config": {"executor": "aws"}},
            "body placement: 5 is not a mapping",
        ),
        ([], "body: is not a JSON object"),
    ],
)
def test_an_invalid_body_is_rejected_with_the_callers_field_names(body: Any, said: str) -> None:
    assert said in refusal(body)


def test_the_tenant_is_named_or_refused() -> None:
    assert organisation_of({"tenant_id": "mine"}) == "mine"
    assert organisation_of({}) is None
    with pytest.raises(InvalidSpec, match="tenant_id"):
        organisation_of({"tenant_id": 5})
