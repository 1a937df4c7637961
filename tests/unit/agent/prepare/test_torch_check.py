"""Whether GPU, driver and torch fit together."""

from __future__ import annotations

import json

import pytest

from anygpu.agent.prepare.torch_check import TORCH_CUDA_SCRIPT, TORCH_VERSION_SCRIPT, check_torch


class Machine:
    """Answers what nvidia-smi and the job's interpreter would."""

    def __init__(
        self,
        gpu: str,
        torch: tuple[str, str | None] | None,
        *,
        available: bool = True,
        archs: str = "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120 compute_120",
        knows_capability: bool = True,
    ) -> None:
        self._gpu, self._torch, self._knows_capability = gpu, torch, knows_capability
        self._verdict = {"available": available, "archs": archs.split()}
        self.asked_torch = False

    def ask(self, argv: list[str]) -> str | None:
        if argv[0] == "nvidia-smi":
            return self._smi("compute_cap" in argv[1])
        if argv[2] == TORCH_VERSION_SCRIPT:
            version, cuda = self._torch or (None, None)
            return json.dumps({"__version__": version, "cuda": cuda, "hip": None})
        assert argv[2] == TORCH_CUDA_SCRIPT
        self.asked_torch = True
        return f"a library says hello\n{json.dumps(self._verdict)}\n"

    def _smi(self, capability: bool) -> str | None:
        if not self._gpu or (capability and not self._knows_capability):
            return None
        return self._gpu if capability else self._gpu.rpartition(",")[0]


T4 = "Tesla T4, 580.65.06, 7.5\n"
H100 = "NVIDIA H100 80GB HBM3, 570.86.10, 9.0\n"
V100 = "Tesla V100-SXM2-16GB, 580.65.06, 7.0\n"
OLD = "Tesla T4, 470.57.02, 7.5\n"
CU130, CU126, CU118 = ("2.13.0+cu130", "13.0"), ("2.13.0+cu126", "12.6"), ("2.7.1+cu118", "11.8")


@pytest.mark.parametrize(
    "machine",
    [
        Machine(T4, CU130),
        Machine(T4, CU126),
        Machine(H100, CU126),
        Machine(OLD, CU118),
        Machine("", CU130),
        Machine(T4, None),
    ],
)
def test_a_fitting_torch_is_not_imported(machine: Machine) -> None:
    assert check_torch("python", machine.ask) == ("", "")
    assert not machine.asked_torch


def test_an_old_driver_is_reported_with_the_cuda_it_supports() -> None:
    wrong, _ = check_torch("python", Machine(OLD, CU130, available=False).ask)
    assert wrong == (
        "the driver of this machine, 470.57.02, supports CUDA 11.4; torch 2.13.0+cu130 is built for CUDA 13.0, which "
        "needs driver 580 or newer. Choose an image with a newer driver, or pin torch==2.7.1 in its cu118 build, the "
        "last one for CUDA 11."
    )


def test_a_cuda_12_driver_gets_advice_for_a_cuda_12_build() -> None:
    wrong, _ = check_torch("python", Machine(H100, CU130, available=False).ask)
    assert "570.86.10, supports CUDA 12.8" in wrong
    assert wrong.endswith("or install a build of torch for CUDA 12 (cu126).")


def test_a_driver_that_does_not_know_capabilities_is_still_read() -> None:
    wrong, _ = check_torch("python", Machine(OLD, CU130, available=False, knows_capability=False).ask)
    assert "the driver of this machine, 470.57.02" in wrong


def test_a_torch_that_works_anyway_is_accepted() -> None:
    machine = Machine(OLD, CU130, available=True)
    assert check_torch("python", machine.ask) == ("", "")
    assert machine.asked_torch


def test_a_gpu_without_kernels_in_the_wheel_is_reported() -> None:
    wrong, _ = check_torch("python", Machine(V100, CU130).ask)
    assert wrong.startswith(
        "torch 2.13.0+cu130 is built for sm_75, sm_80, sm_86, sm_90, sm_100, sm_120, compute_120, "
        "not for this machine's Tesla V100-SXM2-16GB (sm_70)."
    )
    assert "the cu126 build" in wrong


@pytest.mark.parametrize(
    ("capability", "archs", "fits"),
    [
        ("7.0", "sm_50 sm_60 sm_70 sm_75", True),
        ("6.1", "sm_50 sm_60 sm_70", True),
        ("12.0", "sm_80 sm_90", False),
        ("12.0", "sm_80 sm_90 compute_90", True),
        ("12.1", "sm_90 sm_120", True),
        ("10.0", "sm_90a sm_100a", True),
        ("7.2", "sm_75", False),
    ],
)
def test_code_runs_on_its_own_major_version_and_ptx_on_newer_ones(
    capability: str, archs: str, fits: bool
) -> None:
    wrong, _ = check_torch("python", Machine(f"A GPU, 580.1, {capability}\n", CU126, archs=archs).ask)
    assert (wrong == "") == fits


def test_a_cpu_wheel_is_only_a_warning() -> None:
    wrong, doubtful = check_torch("python", Machine(T4, ("2.13.0+cpu", None)).ask)
    assert wrong == ""
    assert doubtful == "torch 2.13.0+cpu is a CPU-only build and will not use this machine's Tesla T4"
