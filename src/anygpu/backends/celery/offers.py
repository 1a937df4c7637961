"""Build offers, descriptions for users, and the answer to `anygpu backend check` from the reports of workers."""

import math
import re
import time
from collections.abc import Sequence
from typing import Any

from anygpu.backends.celery.broker import BrokerAddress
from anygpu.backends.celery.broker_client import BrokerState
from anygpu.backends.celery.messages import BrokerKeys, WorkerReport, own_version
from anygpu.backends.celery.options import CeleryOptions
from anygpu.backends.contract import AccountStatus, HostGpu, HostReport
from anygpu.backends.relay.contract import lease_with_relay
from anygpu.backends.ssh.offers import cpu_slot_count
from anygpu.events.offers import Offer
from anygpu.spec.sections import Resources

MAX_CLOCK_DIFFERENCE_S = 30.0
OLDEST_BROKER = (6, 2)
MAX_NAMED = 5


def build_offer(report: WorkerReport, need: Resources, *, backend: str, options: CeleryOptions) -> Offer:
    """Return the offer of one worker. It runs one attempt at a time."""
    kind = report.gpus[0].kind if report.gpus else ""
    reason = busy_reason(report, need)
    return Offer(
        backend=backend,
        name=report.name,
        gpu_kind=kind,
        gpu_count=len(report.gpus),
        gpu_memory_gib=min((gpu.memory_gib for gpu in report.gpus), default=0),
        cpus=report.cpus,
        memory_gib=report.memory_gib,
        disk_gib=math.floor(report.disk_gib),
        price_microusd_per_hour=options.price_of(kind),
        free=0 if reason else 1,
        own=True,
        wait_reason=reason,
        containers=report.containers,
        lease_s=lease_with_relay(options.lease_s, options.relay),
        shared=True,
        driver=report.gpus[0].driver if report.gpus else "",
    )


def busy_reason(report: WorkerReport, need: Resources) -> str:
    """Return why the worker cannot start an attempt now; empty if it can."""
    if report.draining:
        return f"the worker {report.name} is being stopped"
    if report.attempts:
        return f"the worker {report.name} runs {report.attempts[0].name}"
    wanted = need.gpu.count if need.gpu else 0
    if wanted and report.free_gpus < min(wanted, len(report.gpus)):
        return (
            f"{report.free_gpus} of {len(report.gpus)} GPUs of the worker {report.name} are free; another program "
            "of anygpu on its machine uses the others"
        )
    cpus = cpu_slot_count(need)
    if report.unreserved_cpus < min(cpus, math.floor(report.cpus)):
        return (
            f"{report.unreserved_cpus} of {report.cpus:g} CPUs of the machine of the worker {report.name} are free, "
            f"the job needs {cpus}; other jobs on the machine have reserved the others"
        )
    return ""


def report_host(report: WorkerReport) -> HostReport:
    idle = report.is_idle
    return HostReport(
        offer=report.name,
        problem="" if not report.draining else f"the worker {report.name} is being stopped",
        cpus=report.cpus,
        free_cpus=report.unreserved_cpus if idle else 0,
        memory_gib=report.memory_gib,
        gpus=tuple(
            HostGpu(
                uuid=gpu.uuid,
                kind=gpu.kind,
                memory_gib=gpu.memory_gib,
                driver=gpu.driver,
                free=gpu.free and idle,
            )
            for gpu in report.gpus
        ),
    )


def account_status(
    address: BrokerAddress,
    keys: BrokerKeys,
    state: BrokerState,
    facts: dict[str, Any],
    other_queues: Sequence[str],
) -> AccountStatus:
    """Summarise the broker and its workers, for `anygpu backend check`. The message has one line per topic."""
    version, is_old = _broker_version(facts)
    lines = [
        f"broker {address.display} ({version}): {_security(address)}",
        *_broker_warnings(facts),
        *_worker_lines(address, keys, state, other_queues),
        *_clock_warnings(state),
    ]
    if is_old:
        oldest = ".".join(map(str, OLDEST_BROKER))
        lines.insert(1, f"the broker is too old; update it to Redis {oldest} or newer, or to Valkey")
    return AccountStatus(valid=not is_old, message="\n".join(lines))


def _broker_version(facts: dict[str, Any]) -> tuple[str, bool]:
    number = str(facts.get("valkey_version") or facts.get("redis_version") or "unknown version")
    product = "Valkey" if facts.get("valkey_version") else "Redis"
    parts = re.match(r"(\d{1,9})\.(\d{1,9})", str(facts.get("redis_version", "")))
    is_old = parts is not None and (int(parts[1]), int(parts[2])) < OLDEST_BROKER
    return f"{product} {number}", is_old


def _security(address: BrokerAddress) -> str:
    parts = ["TLS" if address.tls else "no TLS", "password" if address.password else "no password"]
    if address.is_loopback or (address.tls and address.password):
        return ", ".join(parts)
    return f"{', '.join(parts)}; whoever can read the broker can run jobs' code: use rediss:// and a password"


def _broker_warnings(facts: dict[str, Any]) -> list[str]:
    policy = facts.get("maxmemory-policy", facts.get("maxmemory_policy", "noeviction"))
    if policy in ("noeviction", ""):
        return []
    return [
        f"the broker may delete messages when its memory is full (maxmemory-policy {policy}); set it to noeviction"
    ]


def _worker_lines(
    address: BrokerAddress, keys: BrokerKeys, state: BrokerState, other_queues: Sequence[str]
) -> list[str]:
    if not state.reports:
        other = f" Other queues of this broker: {', '.join(other_queues)}." if other_queues else ""
        password = " --password-file FILE" if address.password else ""
        lines = [
            f"no worker of the queue {keys.queue} is alive: start one on each GPU machine with `anygpu worker "
            f"--broker {address.display} --queue {keys.queue}{password}`.{other}"
        ]
    else:
        lines = [_describe(report) for report in state.reports.values()]
    lost = [
        f"{name} ({state.silence_s(name) or 0:.0f} s ago)"
        for name in sorted(state.silent_since_ms, key=lambda each: -state.silent_since_ms[each])
    ]
    if lost:
        more = f" and {len(lost) - MAX_NAMED} more" if len(lost) > MAX_NAMED else ""
        lines.append(f"lost workers, with their last report: {', '.join(lost[:MAX_NAMED])}{more}")
    lines += [f"the report of the worker {name} cannot be read; update the worker" for name in state.invalid]
    return lines


def _describe(report: WorkerReport) -> str:
    kinds = [f"{gpu.kind} {gpu.memory_gib:g} GiB" for gpu in report.gpus]
    gpus = ", ".join(f"{kinds.count(kind)} × {kind}" for kind in dict.fromkeys(kinds)) or "no GPU"
    doing = (
        f"runs {report.attempts[0].name}" if report.attempts else "stopping" if report.draining else "idle"
    )
    version = (
        ""
        if report.version == own_version()
        else f"; its anygpu is {report.version}, the server's {own_version()}"
    )
    cpus = f"{report.cpus:g} CPU{'s' * (report.cpus != 1)}"
    return f"{report.name}: {gpus}, {cpus}, {report.memory_gib:g} GiB memory, {doing}{version}"


def _clock_warnings(state: BrokerState) -> list[str]:
    lines = []
    server_s = time.time() - state.now_ms / 1000
    if abs(server_s) > MAX_CLOCK_DIFFERENCE_S:
        lines.append(
            f"the clocks of the server and the broker differ by {abs(server_s):.0f} s; synchronise them"
        )
    for report in state.reports.values():
        worker_s = (report.clock_ms - report.at_ms) / 1000
        if abs(worker_s) > MAX_CLOCK_DIFFERENCE_S:
            lines.append(
                f"the clocks of {report.host} and the broker differ by {abs(worker_s):.0f} s; synchronise them"
            )
    return lines
