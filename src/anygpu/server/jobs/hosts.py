"""Describe the user's own machines: what they have, what they measure, and which jobs run on them."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from anygpu.api.machines import HostDetails, HostGpuDetails, HostJob
from anygpu.backends.contract import HostGpu, HostReport, SupportsHosts
from anygpu.backends.host_gpus import machine_of_offer
from anygpu.backends.manager import BackendEntry
from anygpu.errors import describe_error
from anygpu.events.view import JobView
from anygpu.server.encoding import format_time
from anygpu.server.jobs.attempts import attempt_phase
from anygpu.server.jobs.machines import LOCAL
from anygpu.spec.jobspec import JobSpec

Telemetry = Mapping[str, Any]
Host = tuple[str, str]  # backend, and name of the machine in its offers
TIMEOUT_S = 10.0
MEASURED = ("use", "memory_used", "memory_total", "temperature_c", "power_w")


async def list_hosts(
    entries: Sequence[BackendEntry],
    running: Sequence[JobView],
    telemetry: Mapping[str, Telemetry],
    here: Telemetry,
    waiting: Sequence[JobView] = (),
) -> list[HostDetails]:
    """Describe the machines of all backends that have fixed ones.

    `running` are the jobs to show, and `telemetry` has their newest measurements by job id. `here` are the
    measurements of the server's own machine, and `waiting` the jobs that wait for any machine.
    """
    with_hosts = [entry for entry in entries if isinstance(entry.backend, SupportsHosts)]
    reports = await asyncio.gather(*(_read_hosts(entry) for entry in with_hosts))
    jobs = _jobs_by_host(running)
    return [
        render_host(
            entry.name,
            report,
            on_host := jobs.get((entry.name, report.offer), []),
            here if entry.name == LOCAL else _newest_sample(on_host, telemetry),
            waiting=sum(1 for view in waiting if may_wait_for(view.spec, entry.name, len(report.gpus))),
        )
        for entry, listed in zip(with_hosts, reports, strict=True)
        for report in listed
    ]


async def _read_hosts(entry: BackendEntry) -> Sequence[HostReport]:
    assert isinstance(entry.backend, SupportsHosts)
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await entry.backend.hosts()
    except Exception as error:  # noqa: BLE001  one failing backend must not hide the others
        return [HostReport(offer=entry.name, problem=describe_error(error))]


def _jobs_by_host(running: Sequence[JobView]) -> dict[Host, list[JobView]]:
    found: dict[Host, list[JobView]] = {}
    for view in running:
        attempt = view.live_attempt
        if attempt is not None:
            machine = machine_of_offer(attempt.offer.name)
            found.setdefault((attempt.offer.backend, machine), []).append(view)
    return found


def _newest_sample(jobs: Sequence[JobView], telemetry: Mapping[str, Telemetry]) -> Telemetry:
    """Return the newest measurements of a machine by one of its jobs; empty without any."""
    samples = [telemetry[view.id] for view in jobs if telemetry.get(view.id)]
    return max(samples, key=lambda sample: sample.get("at") or 0, default={})


def may_wait_for(spec: JobSpec, backend: str, gpus: int) -> bool:
    """Return whether a waiting job may use a host of this backend that has so many GPUs."""
    allowed, gpu = spec.placement.allowed_backends, spec.resources.gpu
    return (
        (not allowed or backend in allowed)
        and backend not in spec.placement.forbidden
        and (not spec.is_only_in_place or backend == LOCAL)
        and (gpu.count if gpu is not None else 0) <= gpus
    )


def render_host(
    backend: str, report: HostReport, jobs: Sequence[JobView], sample: Telemetry, *, waiting: int = 0
) -> HostDetails:
    """Return the description of one machine. `sample` has the measured values."""
    memory = sample.get("memory") or {}
    return HostDetails(
        backend=backend,
        name=report.offer,
        online=not report.problem,
        problem=report.problem,
        cpus=report.cpus,
        free_cpus=report.free_cpus,
        memory_gib=report.memory_gib,
        cpu_use=sample.get("cpu"),
        memory_used=memory.get("used"),
        memory_total=memory.get("total"),
        measured_at=format_time(int(sample["at"] * 1000)) if sample.get("at") else None,
        gpus=_render_gpus(report.gpus, sample.get("gpus") or ()),
        jobs=[_render_job(view) for view in jobs],
        waiting=waiting,
    )


def _render_gpus(gpus: Sequence[HostGpu], stats: Sequence[Telemetry]) -> list[HostGpuDetails]:
    measured = {each.get("uuid"): each for each in stats}
    return [
        HostGpuDetails(
            index=index,
            uuid=gpu.uuid,
            kind=gpu.kind,
            memory_gib=gpu.memory_gib,
            driver=gpu.driver,
            free=gpu.free,
            **{name: measured.get(gpu.uuid, {}).get(name) for name in MEASURED},
        )
        for index, gpu in enumerate(gpus)
    ]


def _render_job(view: JobView) -> HostJob:
    attempt = view.live_attempt
    assert attempt is not None
    return HostJob(id=view.id, name=view.name, attempt=attempt.number, phase=attempt_phase(attempt))
