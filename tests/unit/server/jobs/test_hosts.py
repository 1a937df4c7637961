"""Descriptions of the user's own machines."""

from anygpu.backends.contract import HostGpu, HostReport
from anygpu.server.jobs.hosts import may_wait_for, render_host
from anygpu.spec.load import from_mapping

REPORT = HostReport(
    offer="rig-1",
    cpus=32,
    free_cpus=30,
    memory_gib=256,
    gpus=tuple(
        HostGpu(uuid=uuid, kind="RTX 4090", memory_gib=24, driver="580", free=uuid == "GPU-b")
        for uuid in ("GPU-a", "GPU-b")
    ),
)
STATS = {"uuid": "GPU-a", "use": 0.97, "memory_used": 20, "memory_total": 24, "temperature_c": 74.0}
SAMPLE = {"at": 1767607200.0, "cpu": 0.5, "memory": {"used": 3, "total": 8}, "gpus": [STATS]}


def test_measured_values_belong_to_the_gpu_of_the_same_uuid() -> None:
    host = render_host("lab", REPORT, [], SAMPLE)
    assert [(gpu.index, gpu.use, gpu.temperature_c, gpu.free) for gpu in host.gpus] == [
        (0, 0.97, 74.0, False),
        (1, None, None, True),
    ]
    assert (host.cpu_use, host.memory_used, host.memory_total) == (0.5, 3, 8)
    assert host.measured_at == "2026-01-05T10:00:00.000Z"


def test_a_host_without_measurements_has_none() -> None:
    host = render_host("lab", REPORT, [], {})
    assert (host.cpu_use, host.memory_used, host.measured_at) == (None, None, None)
    assert host.online


def test_a_host_that_does_not_answer_is_offline_with_the_reason() -> None:
    host = render_host("lab", HostReport(offer="rig-2", problem="rig-2 is off"), [], {})
    assert (host.online, host.problem, host.gpus) == (False, "rig-2 is off", [])


def test_a_waiting_job_counts_for_hosts_that_it_may_use_and_that_have_its_gpus() -> None:
    wanted = {"command": ["true"], "resources": {"gpu": 2}, "placement": {"allowed": ["lab"]}}
    spec = from_mapping(wanted)
    assert may_wait_for(spec, "lab", 2)
    assert not may_wait_for(spec, "lab", 1)
    assert not may_wait_for(spec, "other", 2)
    assert may_wait_for(from_mapping({"command": ["true"]}), "other", 0)
