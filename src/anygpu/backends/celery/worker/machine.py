"""The machine of a worker: its GPUs, CPUs and memory, and the default names of its workers."""

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anygpu.agent.host import slots
from anygpu.agent.host.gpus import query_gpus
from anygpu.backends.celery.messages import ReportedGpu

GIB = 2**30


@dataclass(frozen=True, slots=True)
class WorkerGpu:
    """A GPU of this machine, and its number as nvidia-smi counts."""

    number: int
    uuid: str
    kind: str
    memory_gib: float
    driver: str


def find_gpus() -> tuple[list[WorkerGpu], str]:
    """Return the GPUs of this machine that the process may use, and why nvidia-smi failed ("" if it did not).

    CUDA_VISIBLE_DEVICES, which engines and containers set, limits them.
    """
    cards, problem = query_gpus()
    gpus = [WorkerGpu(number, **card) for number, card in enumerate(cards)]
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return gpus, problem
    wanted = [word.strip() for word in visible.split(",") if word.strip()]
    return [gpu for gpu in gpus if any(matches(gpu, word) for word in wanted)], problem


def matches(gpu: WorkerGpu, word: str) -> bool:
    """Return whether a word names the GPU: its number, or the beginning of its UUID."""
    return word == str(gpu.number) if word.isdigit() else bool(word) and gpu.uuid.startswith(word)


def host_name() -> str:
    """Return the name of this machine, in the characters that the name of a worker may have."""
    cleaned = re.sub(r"[^A-Za-z0-9_.-]", "-", os.uname().nodename).lstrip("-_.")
    return cleaned or "host"


def report_gpus(gpus: Sequence[WorkerGpu]) -> tuple[ReportedGpu, ...]:
    """Return the GPUs, each with whether no attempt has locked it."""
    free = set(slots.free_labels(slots.gpu_slots([gpu.uuid for gpu in gpus]))) if gpus else set()
    return tuple(
        ReportedGpu(
            uuid=gpu.uuid,
            kind=gpu.kind,
            memory_gib=gpu.memory_gib,
            driver=gpu.driver,
            free=gpu.uuid in free,
        )
        for gpu in gpus
    )


def machine_facts(directory: Path) -> dict[str, Any]:
    cpus = os.cpu_count() or 1
    return {
        "cpus": cpus,
        "free_cpus": len(slots.free_labels(slots.user_cpu_slots(cpus))),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / GIB, 1),
        "disk_gib": round(shutil.disk_usage(directory).free / GIB, 1),
    }
