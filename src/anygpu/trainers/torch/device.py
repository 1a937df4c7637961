"""Choose the device, the number of CPU threads and the precision."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch

from anygpu.trainers.errors import BadConfig
from anygpu.trainers.ranks import SINGLE, Ranks


def choose_device(name: str, ranks: Ranks = SINGLE) -> torch.device:
    """Return the torch device for the setting `device`; raise BadConfig if it is not available.

    `auto` chooses CUDA, then MPS, then CPU. A bare number such as `0` is a CUDA device index. Of several processes,
    each uses the GPU that `ranks.join` has chosen.
    """
    if ranks.size > 1:
        on_gpu = name != "cpu" and torch.cuda.is_available()
        return torch.device("cuda", torch.cuda.current_device()) if on_gpu else torch.device("cpu")
    wanted = f"cuda:{name}" if name.isdigit() else name
    if wanted in ("auto", ""):
        return torch.device(_best())
    try:
        device = torch.device(wanted)
    except RuntimeError:
        raise BadConfig(
            f"device: {name!r} is not a device; set auto, cpu, mps, cuda or cuda:<number>"
        ) from None
    if not _is_available(device):
        raise BadConfig(
            f"device: torch cannot use {wanted} on this machine; set 'auto', which would use {_best()!r}"
        )
    return device


def prepare(*, threads: int = 0, deterministic: bool = False) -> None:
    """Set the number of CPU threads (0: torch's default) and, on request, deterministic kernels.

    Deterministic kernels are slower on a GPU. CPU kernels are always deterministic.
    """
    if threads:
        torch.set_num_threads(threads)
    if deterministic:
        torch.backends.cudnn.benchmark = False
        torch.use_deterministic_algorithms(True, warn_only=True)


def autocast(device: torch.device, enabled: bool) -> AbstractContextManager[Any]:
    """Return a context manager for mixed precision: float16 on CUDA, bfloat16 on other devices."""
    dtype = torch.float16 if device.type == "cuda" else torch.bfloat16
    return torch.autocast(device.type, dtype=dtype, enabled=enabled)  # type: ignore[no-any-return]


def scaler(device: torch.device, enabled: bool) -> Any:
    return torch.amp.GradScaler(device.type, enabled=enabled and device.type == "cuda")


def _best() -> str:
    if torch.cuda.is_available():
        return "cuda"
    return "mps" if torch.backends.mps.is_available() else "cpu"


def _is_available(device: torch.device) -> bool:
    if device.type == "cuda":
        return (device.index or 0) < int(torch.cuda.device_count())
    return device.type == "cpu" or (device.type == "mps" and bool(torch.backends.mps.is_available()))
