"""Which build of torch is installed for which driver."""

import pytest

from anygpu.agent.prepare.torch_builds import choose_build, with_builds
from anygpu.agent.prepare.torch_check import CudaGpu


def gpu(driver: str, capability: tuple[int, int] | None = (8, 0)) -> CudaGpu:
    return CudaGpu("a GPU", driver, capability)


@pytest.mark.parametrize(
    ("torch", "driver", "build"),
    [
        ("torch==2.13.0+auto", "580.65", ""),
        ("torch==2.13.0+auto", "550.54.15", "cu126"),
        ("torch==2.10.0+auto", "550.54.15", ""),
        ("torch==2.5.1+auto", "470.57.02", "cu118"),
        ("torch==2.13.0+auto", "470.57.02", ""),  # no build works: the check after the installation says so
        ("torch==2.13.0+auto", "unknown", ""),
        ("numpy==2.0", "550.54", ""),
    ],
)
def test_the_build_fits_the_driver(torch: str, driver: str, build: str) -> None:
    assert choose_build([torch], gpu(driver)) == build


def test_a_gpu_that_is_too_old_for_the_default_build_gets_another_one() -> None:
    volta = gpu("590.1", (7, 0))
    assert choose_build(["torch==2.13.0+auto"], volta) == "cu126"
    assert choose_build(["torch==2.10.0+auto"], volta) == ""
    assert choose_build(["torch==2.13.0+auto"], gpu("590.1", None)) == ""
    assert choose_build(["torch==2.13.0+auto"], None) == ""


def test_all_packages_of_torch_get_the_same_build_and_its_index() -> None:
    wanted = ["numpy==2.0", "torch==2.13.0+auto", "torchvision==0.28.0+auto"]
    assert with_builds(wanted, lambda: gpu("550.54")) == [
        "--extra-index-url",
        "https://download.pytorch.org/whl/cu126",
        "numpy==2.0",
        "torch==2.13.0+cu126",
        "torchvision==0.28.0+cu126",
    ]
    assert with_builds(wanted, lambda: gpu("590.1")) == ["numpy==2.0", "torch==2.13.0", "torchvision==0.28.0"]


def test_without_the_label_nothing_is_changed_and_no_gpu_is_asked() -> None:
    def never() -> CudaGpu:
        raise AssertionError

    assert with_builds(["torch==2.13.0", "-r", "more.txt"], never) == ["torch==2.13.0", "-r", "more.txt"]
