"""Predicted peak GPU memory: near the published figures, and sensible where nothing is published."""

import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.plan.analyse.published import figures

from anygpu.plan.hardware import models
from anygpu.plan.predict.memory import TrainingSetup, estimate_memory


def test_at_least_25_published_figures_have_a_source_each() -> None:
    found = figures()
    assert len(found) >= 25
    assert all(figure.source.startswith("https://") for figure in found)


def test_the_median_error_on_published_figures_is_within_20_percent() -> None:
    assert statistics.median(abs(figure.error) for figure in figures()) <= 0.2


def test_no_source_is_missed_by_more_than_a_quarter_in_the_median() -> None:
    sources = {figure.source for figure in figures()}
    for source in sources:
        errors = [abs(figure.error) for figure in figures() if figure.source == source]
        assert statistics.median(errors) <= 0.25, source


def test_nine_of_ten_published_figures_lie_in_the_interval() -> None:
    found = figures()
    assert sum(figure.inside for figure in found) >= 0.9 * len(found)


@given(
    batch=st.integers(1, 256), more=st.integers(1, 64), name=st.sampled_from(["gpt2", "resnet50", "yolov8s"])
)
@settings(max_examples=40, deadline=None)
def test_a_larger_batch_never_needs_less(batch: int, more: int, name: str) -> None:
    shape = models.find_model(name)
    assert shape is not None
    small = estimate_memory(TrainingSetup(parameters=shape.parameters, shape=shape, batch=batch))
    large = estimate_memory(TrainingSetup(parameters=shape.parameters, shape=shape, batch=batch + more))
    assert small.peak_gb < large.peak_gb


@pytest.mark.parametrize(
    "name", ["gpt2", "bert-base-uncased", "llama-2-7b", "resnet50", "vit_base_patch16_224"]
)
def test_recomputing_and_half_precision_never_need_more_activations(name: str) -> None:
    shape = models.find_model(name)
    assert shape is not None
    full = estimate_memory(TrainingSetup(parameters=shape.parameters, shape=shape, batch=8))
    half = estimate_memory(TrainingSetup(parameters=shape.parameters, shape=shape, batch=8, precision="bf16"))
    again = estimate_memory(TrainingSetup(parameters=shape.parameters, shape=shape, batch=8, recomputes=True))
    assert half.activations_gb < full.activations_gb
    assert again.activations_gb < full.activations_gb


def test_adapters_need_no_optimiser_for_the_frozen_weights() -> None:
    shape = models.find_model("meta-llama/Llama-2-7b-hf")
    assert shape is not None
    whole = estimate_memory(TrainingSetup(parameters=shape.parameters, shape=shape, precision="bf16"))
    lora = estimate_memory(
        TrainingSetup(parameters=shape.parameters, shape=shape, precision="bf16", adapters="lora")
    )
    small = estimate_memory(
        TrainingSetup(parameters=shape.parameters, shape=shape, precision="bf16", adapters="qlora")
    )
    assert whole.optimiser_gb > 50
    assert lora.optimiser_gb < 1
    assert small.weights_gb < 0.5 * lora.weights_gb


def test_shards_share_the_states_but_not_the_activations() -> None:
    shape = models.find_model("gpt2-xl")
    assert shape is not None
    alone = estimate_memory(TrainingSetup(parameters=shape.parameters, shape=shape))
    shared = estimate_memory(TrainingSetup(parameters=shape.parameters, shape=shape, shards=8))
    assert shared.weights_gb == pytest.approx(alone.weights_gb / 8)
    assert shared.activations_gb == alone.activations_gb


def test_an_unknown_network_gets_a_wide_interval_and_little_confidence() -> None:
    found = estimate_memory(TrainingSetup(parameters=30_000_000, batch=32))
    assert found.high_gb / found.low_gb > 3
    assert found.confidence < 0.5
    assert found.low_gb < found.peak_gb < found.high_gb


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("meta-llama/Llama-2-7b-hf", 6_738_400_000),
        ("google/vit-base-patch16-224-in21k", 86_570_000),
        ("tf_efficientnet_b3_ns", 12_230_000),
        ("yolo11n-seg", 2_600_000),
        ("vit_b_16", 86_570_000),
        ("ResNet50", 25_560_000),
    ],
)
def test_a_model_is_found_under_any_library_spelling(name: str, parameters: int) -> None:
    shape = models.find_model(name)
    assert shape is not None
    assert shape.parameters == parameters


def test_a_name_that_says_its_size_is_believed_when_nothing_better_is_known() -> None:
    assert models.find_model("acme/quark-13b-chat") is None
    assert models.parameters_in_name("acme/quark-13b-chat") == 13_000_000_000
    assert models.parameters_in_name("my-model") is None
