"""`Requirements` and preferences of a job, and their translation to the job spec."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anygpu.errors import InvalidSpec, Problem
from anygpu.suggest import did_you_mean

OPTIMIZE_FOR = {"cost": "cheapest", "speed": "fastest", "balance": "balanced"}
PREFERENCES = {
    "optimize_for": "strategy",
    "allowed_backends": "allowed",
    "forbidden_backends": "forbidden",
    "fallback_backends": "fallbacks",
    "region": "region",
    "zone": "zone",
    "instance_type": "instance_type",
    "profile": "profile",
    "paid": "paid",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """The hardware a job needs, and its limits. The planner chooses the values that are not set."""

    gpu_count: int | None = None
    gpu_kind: str | None = None
    gpu_memory_gb: float | None = None
    cpus: float | None = None
    memory_gb: float | None = None
    disk_gb: float | None = None
    duration_hours_estimated: float | None = None
    checkpoint_frequency_minutes: float | None = None
    interruptible: bool | None = None
    max_cost_usd: float | None = None
    timeout_hours: float | None = None
    deadline_hours: float | None = None
    max_retries: int | None = None

    def spec(self) -> dict[str, Any]:
        """Return these requirements as sections of the job spec."""
        gpu = _without_none(count=self.gpu_count, kind=self.gpu_kind, memory=_size(self.gpu_memory_gb))
        resources = _without_none(
            gpu=gpu or None, cpus=self.cpus, memory=_size(self.memory_gb), disk=_size(self.disk_gb)
        )
        limits = _without_none(
            max_cost=None if self.max_cost_usd is None else f"{self.max_cost_usd:.6f}",
            timeout_s=_to_seconds(self.timeout_hours, 3600),
            deadline_s=_to_seconds(self.deadline_hours, 3600),
            max_retries=self.max_retries,
        )
        placement = _without_none(
            interruptible=None if self.interruptible is None else _yes_or_no(self.interruptible),
            expected_duration_s=_to_seconds(self.duration_hours_estimated, 3600),
        )
        checkpoint = _without_none(every_s=_to_seconds(self.checkpoint_frequency_minutes, 60))
        parts = {"resources": resources, "limits": limits, "placement": placement, "checkpoint": checkpoint}
        return {name: part for name, part in parts.items() if part}


def placement_from(preferences: Mapping[str, Any]) -> dict[str, Any]:
    """Return the spec's placement section for preferences such as `{"optimize_for": "cost"}`."""
    unknown = [name for name in preferences if name not in PREFERENCES]
    if unknown:
        raise InvalidSpec([_unknown_preference(name) for name in unknown])
    placement = {PREFERENCES[name]: value for name, value in preferences.items() if value is not None}
    if "strategy" in placement:
        placement["strategy"] = OPTIMIZE_FOR.get(placement["strategy"], placement["strategy"])
    return placement


def _unknown_preference(name: str) -> Problem:
    suggestion = did_you_mean(name, PREFERENCES) or f"known: {', '.join(PREFERENCES)}"
    return Problem(f"preferences.{name}", None, "unknown key", suggestion)


def _without_none(**parts: Any) -> dict[str, Any]:
    return {name: value for name, value in parts.items() if value is not None}


def _size(gigabytes: float | None) -> str | None:
    # GPU vendors write "16 GB" for 16 GiB, which is "16G" in the spec.
    return None if gigabytes is None else f"{gigabytes:g}G"


def _to_seconds(amount: float | None, seconds: float) -> float | None:
    return None if amount is None else amount * seconds


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"
