"""A wheel without kernels for a GPU is found out before the GPU is rented."""

from typing import Any

import pytest

from anygpu.events.offers import Offer
from anygpu.plan.analyse.job import analyse_job
from anygpu.plan.hardware import gpus
from anygpu.plan.hardware.torch_wheels import torch_mismatch
from anygpu.plan.offers.candidates import Candidate
from anygpu.plan.offers.comparison import rank
from anygpu.spec.load import from_mapping


@pytest.mark.parametrize(
    ("requirement", "kind", "fits"),
    [
        ("torch", "V100", False),  # the newest
        ("torch==2.10.0", "V100", True),
        ("torch<2.11", "V100", True),
        ("torch>=2.4,<2.11", "V100", True),
        ("torch==2.12.1+cu126", "V100", True),
        ("torch == 2.13.0", "T4", True),
        ("torch~=2.6.0", "RTX5090", False),
        ("torch==2.7.0", "B200", False),
        ("torch>=2.0", "B200", True),
        ("torch==1.12.1", "A100-40GB", False),
        ("torch==2.0.1", "H100-SXM", False),
        ("torch==2.4", "H100-SXM", True),
        ("torch[opt]==2.13 ; python_version > '3.9'", "P100", False),
        ("torchvision", "K80", True),  # not torch
        ("torch-geometric==2.5", "K80", True),
        ("# torch", "K80", True),
        ("torch==banana", "V100", False),
        ("torch<2", "V100", True),  # the last 1, and so on
        ("torch<2.0", "H100-SXM", False),
        ("torch<3", "V100", False),
        ("torch<2.8.1", "B200", True),
        ("torch<2.8.0", "B200", False),
        ("torch~=2.1", "B200", True),  # any 2 from 2.1 on
        ("torch~=2.1.0", "B200", False),
        ("torch==2.*", "B200", True),
        ("torch==2.1.*", "B200", False),
        ("torch==2.7.1+cu128", "B200", True),
        ("torch==2.9.0+cu128", "V100", True),
        ("torch==2.11.0+cu128", "V100", False),
        ("torch==2.9.0+cu130", "V100", False),
        ("torch==2.12+cpu", "V100", True),  # needs none
        ("torch @ https://lab.example/torch-2.0.0-cp311-linux_x86_64.whl", "V100", True),
    ],
)
def test_which_torch_runs_on_which_gpu(requirement: str, kind: str, fits: bool) -> None:
    gpu = gpus.spec(kind)
    assert gpu is not None
    said = torch_mismatch(["numpy", requirement], gpu)
    assert (said == "") is fits, said


@pytest.mark.parametrize("option", ["-i ", "--index-url ", "--index-url=", "--extra-index-url "])
def test_an_index_of_one_build_decides_which_wheel_it_is(option: str) -> None:
    index, v100 = option + "mirror/whl/cu126", gpus.spec("V100")
    assert torch_mismatch([index, "torch"], v100, "535.1") == ""
    assert torch_mismatch(["torch"], v100) != ""
    assert torch_mismatch([option + "mirror/simple", "torch"], v100) != ""
    assert "torch 2.13 (cu126)" in torch_mismatch([index, "torch"], gpus.spec("B200"))


def test_a_place_whose_gpu_the_wheel_does_not_know_is_out_with_the_reason() -> None:
    offers = [
        Offer(backend=kind, gpu_kind=kind, gpu_count=1, price_microusd_per_hour=1) for kind in ("V100", "T4")
    ]
    candidates = [Candidate(offer=offer) for offer in offers]
    found = rank(from_mapping({"script": "a.py", "requirements": ["torch==2.12"]}), candidates)
    assert [line.candidate.offer.backend for line in found.ranked] == ["T4"]
    assert found.rejected[0].rejection == (
        "has a Volta GPU, for which torch 2.12 has no kernels; pin torch<2.11, or a cu126 wheel"
    )
    anything = rank(from_mapping({"script": "a.py"}), candidates)
    assert len(anything.ranked) == 2


@pytest.mark.parametrize(
    ("more", "fits"),
    [
        ({}, False),  # its framework is installed, with the newest torch
        ({"requirements": ["torch<2.11", "ultralytics"]}, True),  # what it was advised to do
        ({"requirements": "old.txt"}, True),
        ({"requirements": ["torch==2.12"]}, False),
        ({"image": "lab/torch:2.10"}, True),
        ({"python": "/opt/torch/bin/python"}, True),
    ],
)
def test_a_trainer_installs_what_the_job_says_there_is_and_its_framework_only_otherwise(
    more: dict[str, Any], fits: bool
) -> None:
    v100 = Offer(backend="a", gpu_kind="V100", gpu_count=1, price_microusd_per_hour=1, containers=True)
    spec = from_mapping({"trainer": "yolo", "dataset": "data", **more})
    found = rank(spec, [Candidate(offer=v100)], analyse_job(spec, {"old.txt": "torch==2.10\n"}))
    assert (len(found.ranked) == 1) is fits


def test_a_requirements_file_is_read_for_a_snippet_as_for_a_script() -> None:
    files = {"new.txt": "torch==2.12\n", "a.py": "import torch"}
    for what in ({"script": "a.py"}, {"code": "import torch"}):
        read = analyse_job(from_mapping({**what, "requirements": "new.txt"}), files)
        assert read is not None
        assert read.requirements == ("torch==2.12",)


@pytest.mark.parametrize(
    ("requirement", "driver", "fits"),
    [
        ("torch", "580.65.06", True),
        ("torch", "570.86.15", False),  # the newest is built for CUDA 13
        ("torch<2.11", "570.86.15", True),
        ("torch==2.10", "525.60.13", True),
        ("torch==2.10", "520.61.05", False),
        ("torch==2.12.1+cu126", "535.104.05", True),
        ("torch==2.7.1+cu118", "450.80.02", True),
        ("torch==2.0.1", "470.57.02", True),
        ("torch==2.0.1", "440.33.01", False),
        ("torch==1.4", "418.39", True),  # nothing is said of CUDA 10
        ("torch==2.12+cpu", "418.39", True),
        ("torch", "", True),
        ("torch", "unknown", True),
        ("numpy", "418.39", True),
    ],
)
def test_which_torch_runs_with_which_driver(requirement: str, driver: str, fits: bool) -> None:
    assert (torch_mismatch([requirement], gpus.spec("T4"), driver) == "") is fits
    assert (torch_mismatch([requirement], None, driver) == "") is fits


def test_a_machine_whose_driver_is_too_old_is_out_with_what_to_do() -> None:
    own = Candidate(offer=Offer(backend="lab", gpu_kind="T4", gpu_count=1, driver="550.54"), configured=True)
    wanted = from_mapping({"script": "a.py", "requirements": ["torch==2.12"]})
    (line,) = rank(wanted, [own]).rejected
    assert line.rejection == (
        "has driver 550.54; torch 2.12 is built for CUDA 13, which needs driver 580 or newer:"
        " update the driver, or pin torch<2.11, or a cu126 wheel"
    )
    old = torch_mismatch(["torch==2.12"], None, "470.1")
    assert old.endswith("update the driver, or pin a cu118 wheel of torch<2.8")
    nothing_else = torch_mismatch(["torch==2.0.1"], None, "440.33")
    assert nothing_else.endswith("which needs driver 450 or newer: update the driver")
