"""Other documents' ways of asking for a job, translated to the one spec.

Each door gives a mapping for `from_mapping`, and the caller's own name for each place, for the errors.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anygpu.errors import InvalidSpec, Problem
from anygpu.spec.nearest import did_you_mean
from anygpu.spec.plain import PlainCopy, shown
from anygpu.spec.read import Place, dotted, invalid
from anygpu.spec.shorthand import STRATEGIES, long_form

SOURCE = "body"

_TRAINING_CONFIG: Mapping[str, Place] = {
    "executor": ("placement", "allowed"),
    "instance_type": ("placement", "instance_type"),
    "allow_spot_instances": ("placement", "interruptible"),
    "max_retries": ("limits", "max_retries"),
    "resume_from": ("resume_from",),
    "dataset_path": ("dataset",),
    "priority": ("priority",),
}
_REQUIREMENTS: Mapping[str, Place] = {
    "gpu_memory_gb": ("resources", "gpu", "memory"),
    "gpu_type": ("resources", "gpu", "kind"),
    "gpu_count": ("resources", "gpu", "count"),
    "duration_hours_estimated": ("placement", "expected_duration"),
    "checkpoint_frequency_minutes": ("checkpoint", "every"),
    "interruptible": ("placement", "interruptible"),
    "max_cost_usd": ("limits", "max_cost"),
}
_UNITS = {"gpu_memory_gb": "GB", "duration_hours_estimated": "h", "checkpoint_frequency_minutes": "m"}
_PREFERENCES = ("optimize_for", "allowed_backends")
_STRATEGY = {"cost": "cheapest", "speed": "fastest", "time": "fastest", "balanced": "balanced"}
_ORCHESTRATE = ("tenant_id", "training_params", "model_params", "custom_name", "wandb_tags")


@dataclass(slots=True)
class Translation:
    """A spec's mapping, and the caller's own name for each place in it."""

    mapping: dict[str, Any] = field(default_factory=dict)
    renamed: dict[Place, str] = field(default_factory=dict)

    def put(self, place: Place, value: Any, called: str) -> None:
        """Empty values are left out: the spec's own defaults apply."""
        if value is None:
            return
        inner: Any = self.mapping
        for depth, part in enumerate(place[:-1], 1):
            inner[part] = long_form(dotted(place[:depth]), inner.get(part, {}))
            inner = inner[part]
            if not isinstance(inner, dict):
                return  # the caller filled this section with something else, which the models will refuse
        inner[place[-1]] = value
        self.renamed[place] = called


def translate(body: Any) -> Translation:
    """Whatever shape was posted; a body in no other shape is taken for a spec of our own."""
    plain = _plain(body)
    if "model_name" in plain:
        return from_training_body(plain)
    if "model_params" in plain or "training_params" in plain:
        return from_orchestrate_body(plain)
    if isinstance(plain.get("requirements"), dict) or "preferences" in plain:
        return from_requirements(plain)
    return Translation(plain)


def from_training_body(body: Any) -> Translation:
    """`{"model_name": ..., "config": {...}}`: what the platform knows leaves the config for its own place."""
    plain = _plain(body)
    config = _mapping(plain, "config")
    done = Translation({key: value for key, value in plain.items() if key not in ("model_name", "config")})
    done.put(("trainer",), plain.get("model_name"), "model_name")
    done.put(
        ("config",), {key: value for key, value in config.items() if key not in _TRAINING_CONFIG}, "config"
    )
    for key, place in _TRAINING_CONFIG.items():
        done.put(place, _backends(config.get(key)) if key == "executor" else config.get(key), f"config.{key}")
    return done


def from_orchestrate_body(body: Any) -> Translation:
    """`POST /orchestrate`. `tenant_id` names the organisation, not the job: see `tenant_of`."""
    plain = _plain(body)
    _only(plain, _ORCHESTRATE)
    model, training = dict(_mapping(plain, "model_params")), _mapping(plain, "training_params")
    architecture = model.pop("architecture", None)
    if architecture is None:
        raise invalid(SOURCE, "is required", place="model_params.architecture")
    done = Translation()
    done.put(("trainer",), architecture, "model_params.architecture")
    done.put(("config",), {**training, **model}, "training_params")
    done.put(("name",), _slug(plain.get("custom_name")), "custom_name")
    done.put(("track", "tags"), plain.get("wandb_tags"), "wandb_tags")
    return done


def tenant_of(body: Any) -> str | None:
    """The organisation a body names, if any; the caller's token must belong to it."""
    tenant = body.get("tenant_id") if isinstance(body, Mapping) else None
    if tenant is None or isinstance(tenant, str):
        return tenant
    raise invalid(SOURCE, f"{shown(tenant)} is not an organisation", place="tenant_id", value=shown(tenant))


def from_requirements(body: Any) -> Translation:
    """`{"code": ..., "requirements": {"gpu_memory_gb": 16}, "preferences": {"optimize_for": "cost"}}`."""
    plain = _plain(body)
    needs, wishes = _mapping(plain, "requirements"), _mapping(plain, "preferences")
    _only(needs, _REQUIREMENTS, "requirements.")
    _only(wishes, _PREFERENCES, "preferences.")
    done = Translation(
        {key: value for key, value in plain.items() if key not in ("requirements", "preferences")}
    )
    for key, place in _REQUIREMENTS.items():
        done.put(place, _with_unit(needs.get(key), _UNITS.get(key, "")), f"requirements.{key}")
    done.put(("placement", "strategy"), _strategy(wishes.get("optimize_for")), "preferences.optimize_for")
    done.put(("placement", "allowed"), wishes.get("allowed_backends"), "preferences.allowed_backends")
    return done


def _strategy(goal: Any) -> str | None:
    if goal is None:
        return None
    if isinstance(goal, str) and (goal in _STRATEGY or goal in STRATEGIES):
        return _STRATEGY.get(goal, goal)
    said = f"{shown(goal)!r} is not one of {', '.join(_STRATEGY)}"
    near = did_you_mean(str(goal), _STRATEGY)
    raise InvalidSpec([Problem("preferences.optimize_for", shown(goal), said, near, SOURCE)])


def _plain(body: Any) -> dict[str, Any]:
    if not isinstance(body, Mapping):
        raise invalid(SOURCE, "is not a JSON object", value=shown(body))
    copy = PlainCopy()
    plain: dict[str, Any] = copy.of(body)
    if copy.findings:
        raise InvalidSpec(
            [Problem(dotted(place), value, said, "", SOURCE) for place, value, said in copy.findings]
        )
    return plain


def _mapping(plain: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = plain.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid(SOURCE, f"{shown(value)!r} should be an object", place=key, value=shown(value))
    return value


def _only(plain: Mapping[str, Any], known: Mapping[str, Any] | tuple[str, ...], prefix: str = "") -> None:
    unknown = [key for key in plain if key not in known]
    if unknown:
        raise InvalidSpec(
            [_unknown(prefix + key, shown(plain[key]), [prefix + name for name in known]) for key in unknown]
        )


def _unknown(place: str, value: Any, known: list[str]) -> Problem:
    return Problem(place, value, "unknown key", did_you_mean(place, known), SOURCE)


def _backends(executor: Any) -> Any:
    """`auto` leaves the choice to the plan."""
    return None if executor in (None, "auto") else executor


def _with_unit(value: Any, unit: str) -> Any:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value}{unit}" if unit and numeric else value


def _slug(name: Any) -> Any:
    """Their names are free text, ours are not."""
    if not isinstance(name, str):
        return name
    return re.sub(r"[^A-Za-z0-9._]+", "-", name)[:100].strip("-._") or None
