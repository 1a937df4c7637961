"""The figures of GPUs, and one name for their many spellings."""

import pytest

from anygpu.plan.hardware import gpus


@pytest.mark.parametrize(
    ("spelling", "kind"),
    [
        ("A100-80GB", "A100-80GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"),
        ("NVIDIA A100-PCIE-40GB", "A100-40GB"),
        ("a100_80g", "A100-80GB"),
        ("a10g", "A10G"),
        ("NVIDIA A10", "A10"),
        ("Tesla V100-SXM2-16GB", "V100-16GB"),
        ("Tesla K80", "K80"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM"),
        ("H100-80G-PCIe", "H100-PCIe"),
        ("NVIDIA H100 NVL", "H100-NVL"),
        ("H200-SXM", "H200"),
        ("NVIDIA GH200 480GB", "GH200"),
        ("NVIDIA GeForce RTX 2080 Ti", "RTX2080Ti"),
        ("rtx 4090", "RTX4090"),
        ("RTX A6000", "RTXA6000"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX6000-Ada"),
        ("Quadro RTX 6000", "QuadroRTX6000"),
        ("RTX PRO Server 6000", "RTXPRO6000"),
        ("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "RTXPRO6000-WK"),
        ("AMD Instinct MI300X", "MI300X"),
    ],
)
def test_a_spelling_becomes_the_one_name_of_its_kind(spelling: str, kind: str) -> None:
    assert gpus.canonical_name(spelling) == kind


def test_a_name_nobody_knows_stays_as_it_was_written() -> None:
    assert gpus.canonical_name(" Frob 9 ") == "Frob 9"
    assert not gpus.is_known("Frob 9")
    assert gpus.spec("Frob 9") is None


@pytest.mark.parametrize(
    ("asked", "offered", "same"),
    [
        ("a100", "NVIDIA A100-SXM4-80GB", True),
        ("A100-80GB", "A100-40GB", False),
        ("A10", "A100", False),
        ("A10", "A10G", False),
        ("L4", "L40S", False),
        ("L40", "L40S", False),
        ("H100", "H100-NVL", True),
        ("H100-SXM", "H100-PCIe", False),
        ("V100", "V100-32GB", True),
        ("frob9", "Frob9", True),
    ],
)
def test_only_the_same_kind_or_one_of_the_family_is_what_was_asked_for(
    asked: str, offered: str, same: bool
) -> None:
    assert gpus.matches(asked, offered) is same


def test_a_family_is_told_apart_by_its_memory_and_else_means_the_usual_one() -> None:
    found = [gpus.spec("A100"), gpus.spec("A100", memory_gib=80), gpus.spec("H100", memory_gib=94)]
    assert [each.kind for each in found if each] == ["A100-40GB", "A100-80GB", "H100-NVL"]
    assert gpus.spec("NVIDIA A100 SXM", memory_gib=79.2) == gpus.spec("A100-80GB")
    assert gpus.spec("A100", memory_gib=12) == gpus.spec("A100-40GB")


def test_a_misspelt_kind_names_the_nearest() -> None:
    assert gpus.closest_kind("RTX490") == "RTX4090"


@pytest.mark.parametrize("each", gpus.specs().values(), ids=lambda each: each.kind)
def test_every_row_is_complete_and_makes_sense(each: gpus.GpuSpec) -> None:
    assert each.memory_gib > 0
    assert each.bandwidth_gb_s > 100
    assert 2012 <= each.year <= 2026
    assert all((each.source, each.architecture, each.capability))
    peaks = [each.peak_tflops(precision) for precision in ("fp32", "tf32", "bf16", "fp8")]
    assert peaks == sorted(peaks), "a narrower number is never slower"


def test_the_kinds_that_clouds_rent_are_there_with_the_figures_of_their_datasheets() -> None:
    a100, h100, t4 = gpus.specs()["A100-80GB"], gpus.specs()["H100-SXM"], gpus.specs()["T4"]
    assert (a100.bf16_tflops, a100.bandwidth_gb_s, a100.capability) == (312, 2039, "8.0")
    assert (h100.fp16_tflops, h100.fp8_tflops, h100.memory_gib) == (989, 1979, 80)
    assert (t4.fp16_tflops, t4.bf16_tflops, t4.peak_tflops("bf16")) == (65, 0, 8.1)
    assert len(gpus.specs()) >= 30
