"""Networks between machines and links between GPUs."""

import pytest

from anygpu.plan.hardware import gpus
from anygpu.plan.hardware.networks import (
    PCIE_GB_S,
    TYPICAL_GBIT_S,
    Network,
    _rows,
    find_network,
    gpu_link_gb_s,
    has_fast_gpu_link,
)


@pytest.mark.parametrize(
    ("instance_type", "stated", "found"),
    [
        ("p4d.24xlarge", "", Network("efa", 400, is_assumed=False)),
        ("p5.48xlarge", "efa", Network("efa", 3200, is_assumed=False)),
        ("Standard_ND96isr_H100_v5", "", Network("infiniband", 3200, is_assumed=False)),
        ("a3-highgpu-8g", "", Network("ethernet", 1000, is_assumed=False)),
        ("a2-ultragpu-8g", "", Network("ethernet", 100, is_assumed=False)),
        ("g5.xlarge", "", Network("ethernet", 10, is_assumed=False)),
        ("g5.48xlarge", "", Network("efa", 100, is_assumed=False)),
        ("p4d.24xlarge", "ethernet", Network("ethernet", 100, is_assumed=True)),  # without EFA interfaces
        ("lab", "infiniband", Network("infiniband", 200, is_assumed=True)),
        ("lab", "", Network("", 10, is_assumed=True)),
        ("lab", "carrier pigeon", Network("carrier pigeon", 10, is_assumed=True)),
    ],
)
def test_the_network_of_an_instance_type_is_found(instance_type: str, stated: str, found: Network) -> None:
    assert find_network(instance_type, stated) == found


def test_every_row_of_the_table_has_a_known_kind_and_a_speed() -> None:
    assert len(_rows()) > 30
    assert {row.kind for row in _rows().values()} <= set(TYPICAL_GBIT_S) - {""}
    assert all(row.gbit_s >= 10 for row in _rows().values())


def test_a_fast_network_is_told_from_a_slow_one() -> None:
    assert find_network("p4d.24xlarge").is_fast
    assert not find_network("g5.xlarge").is_fast
    assert find_network("p4d.24xlarge").describe() == "efa (400 Gbit/s)"
    assert find_network("lab").describe() == "a network of unknown kind (10 Gbit/s assumed)"


def test_gpus_are_linked_by_nvlink_or_pcie() -> None:
    a100, t4 = gpus.spec("A100-40GB"), gpus.spec("T4")
    assert a100 is not None
    assert t4 is not None
    assert has_fast_gpu_link(a100)
    assert not has_fast_gpu_link(t4)
    assert gpu_link_gb_s(a100) == pytest.approx(240)
    assert gpu_link_gb_s(t4) == PCIE_GB_S
