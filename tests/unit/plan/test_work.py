"""What a step does: as published where somebody has counted, and of the right size where nobody has."""

from dataclasses import replace
from typing import Any, get_args

import pytest

from anygpu.plan import models
from anygpu.plan.memory import Training
from anygpu.plan.models import Kind
from anygpu.plan.work import step


def training(name: str, **more: Any) -> Training:
    shape = models.lookup(name)
    assert shape is not None
    return Training(parameters=shape.parameters, shape=shape, **more)


@pytest.mark.parametrize(
    ("name", "gmacs"),
    [
        # huggingface/pytorch-image-models, results/benchmark-infer-amp-nchw-pt240-cu124-rtx3090.csv
        ("vit_small_patch16_224", 4.61),
        ("vit_base_patch16_224", 17.58),
        ("vit_base_patch32_224", 4.41),
        ("vit_large_patch16_224", 61.6),
        ("deit_tiny_patch16_224", 1.26),
        ("resnet50", 4.11),
    ],
)
def test_pictures_are_counted_as_timm_counts_them(name: str, gmacs: float) -> None:
    work, sized = step(training(name))
    assert work.gmacs == pytest.approx(gmacs, rel=0.02)
    assert sized.factor == 1.0


@pytest.mark.parametrize(
    ("name", "billions"),
    [("gpt2", 0.124), ("meta-llama/Llama-2-7b-hf", 6.6), ("albert-base-v2", 0.085), ("falcon-7b", 7.2)],
)
def test_a_token_goes_once_through_every_matrix(name: str, billions: float) -> None:
    assert step(training(name, sequence=1))[0].gmacs == pytest.approx(billions, rel=0.03)


def test_twice_the_side_is_four_times_the_work() -> None:
    small, large = (step(training("resnet50", pixels=side**2))[0] for side in (112, 224))
    assert large.gmacs == pytest.approx(4 * small.gmacs)
    assert large.mega_activations == pytest.approx(4 * small.mega_activations)


def test_adapters_save_a_pass_and_recomputing_costs_one() -> None:
    whole = training("gpt2")
    adapted, again = replace(whole, adapters="lora"), replace(whole, recomputes=True)
    assert [step(each)[0].passes for each in (adapted, whole, again)] == [2.0, 3.0, 4.0]
    assert step(adapted)[0].mega_parameters < step(whole)[0].mega_parameters
    assert step(replace(whole, adapters="qlora"))[0].mega_parameters > step(adapted)[0].mega_parameters


def test_convolutions_in_32_bits_use_the_units_that_matrices_do_not() -> None:
    assert step(training("resnet50"))[0].precision == "tf32"
    assert step(training("bert-base-uncased"))[0].precision == "fp32"


@pytest.mark.parametrize("known", [{"pixels": 224**2}, {"sequence": 128}, {}], ids=str)
def test_of_a_model_nobody_knows_the_parameters_say_something_with_a_wide_doubt(
    known: dict[str, Any],
) -> None:
    small, large = (
        step(Training(parameters=count, **known), text="sequence" in known) for count in (10**6, 10**8)
    )
    assert 10 < large[0].gmacs / small[0].gmacs < 1000
    assert small[1].factor >= 1.5
    assert small[1].because


@pytest.mark.parametrize("kind", get_args(Kind))
def test_every_kind_of_the_table_has_work_to_do(kind: str) -> None:
    shapes = [shape for shape in models.published() if shape.kind == kind]
    assert shapes
    for shape in shapes:
        work, _ = step(Training(parameters=shape.parameters, shape=shape, batch=4))
        assert work.gmacs > 0, shape.name
        assert work.mega_activations > 0, shape.name
