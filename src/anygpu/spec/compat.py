"""Translate request bodies of other APIs into a job spec.

Each function returns a mapping for `from_mapping`, and the name that the caller used for each field. Error
messages show the caller's names.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anygpu.errors import InvalidSpec, Problem
from anygpu.spec.documents import FieldPath, format_path, invalid_document
from anygpu.spec.normalize import Normalizer, preview
from anygpu.spec.shorthand import STRATEGIES, long_form
from anygpu.suggest import did_you_mean

SOURCE = "body"

_TRAINING_CONFIG: Mapping[str, FieldPath] = {
    "executor": ("placement", "allowed"),
    "instance_type": ("placement", "instance_type"),
    "allow_spot_instances": ("placement", "interruptible"),
    "max_retries": ("limits", "max_retries"),
    "resume_from": ("resume_from",),
    "priority": ("priority",),
}
_REQUIREMENTS: Mapping[str, FieldPath] = {
    "gpu_memory_gb": ("resources", "gpu", "memory"),
    "gpu_type": ("resources", "gpu", "kind"),
    "gpu_count": ("resources", "gpu", "count"),
    "duration_hours_estimated": ("placement", "expected_duration"),
    "checkpoint_frequency_minutes": ("checkpoint", "every"),
    "interruptible": ("placement", "interruptible"),
    "max_cost_usd": ("limits", "max_cost"),
}
_UNIT_SUFFIXES = {"gpu_memory_gb": "GB", "duration_hours_estimated": "h", "checkpoint_frequency_minutes": "m"}
_PREFERENCE_KEYS = ("optimize_for", "allowed_backends")
_STRATEGY_NAMES = {"cost": "cheapest", "speed": "fastest", "time": "fastest", "balanced": "balanced"}
_DATASET_KEYS = ("dataset", "dataset_path")
_MODEL_TRAINING_KEYS = ("config", "compute_profile_id", "dataset_version_id", *_DATASET_KEYS)
_ORCHESTRATE_KEYS = (
    *("tenant_id", "training_params", "model_params", "custom_name", "wandb_tags"),
    *_DATASET_KEYS,
)


# Keys of a body with `trainingSettings`, as clients that rent a machine themselves send it.
_CLOUD_TRAINING: Mapping[str, FieldPath] = {
    "datasetPath": ("dataset",),
    "region": ("placement", "region"),
    "flavor": ("placement", "instance_type"),
}
_CLOUD_SETTINGS = {
    "modelVariant": "model",
    "batchSize": "batch_size",
    "imageSize": "image_size",
    "learningRate": "learning_rate",
}
_MACHINE_KEYS = {
    "project": "set the option `project` of the backend",
    "image": "set the option `image` of the backend; for a container image, submit a job spec",
    "password": "leave it out: machines get a random password and a key of their own",
}


@dataclass(slots=True)
class Translation:
    """A request that was translated to a spec mapping, and the name that the caller used for each field in it."""

    mapping: dict[str, Any] = field(default_factory=dict)
    renamed: dict[FieldPath, str] = field(default_factory=dict)

    def put(self, path: FieldPath, value: Any, caller_name: str) -> None:
        """Set a field at `path`. A `value` of None is ignored, so that the default of the spec applies."""
        if value is None:
            return
        inner: Any = self.mapping
        for depth, part in enumerate(path[:-1], 1):
            inner[part] = long_form(format_path(path[:depth]), inner.get(part, {}))
            inner = inner[part]
            if not isinstance(inner, dict):
                return  # not a section; validation will report it
        inner[path[-1]] = value
        self.renamed[path] = caller_name


def translate(body: Any) -> Translation:
    """Translate a request body of any supported shape. A body of unknown shape is treated as a job spec."""
    plain = _normalize_body(body)
    if "model_name" in plain:
        return translate_training_body(plain)
    if "model_params" in plain or "training_params" in plain:
        return translate_orchestrate_body(plain)
    if "trainingSettings" in plain:
        return translate_cloud_training_body(plain)
    if isinstance(plain.get("requirements"), dict) or "preferences" in plain:
        return translate_requirements_body(plain)
    return Translation(plain)


def translate_training_body(body: Any) -> Translation:
    """Translate `{"model_name": ..., "config": {...}}`. Platform settings move from `config` to their own fields."""
    plain = _normalize_body(body)
    if isinstance(plain.get("model_name"), bool | int | float):
        raise InvalidSpec(
            [
                Problem(
                    "model_name",
                    plain["model_name"],
                    "must be a string; write it in quotation marks",
                    source="body",
                )
            ]
        )
    config = _section(plain, "config")
    translation = Translation(
        {key: value for key, value in plain.items() if key not in ("model_name", "config", *_DATASET_KEYS)}
    )
    given = {key: plain.get(key) for key in _DATASET_KEYS}
    _put_dataset(translation, {**given, "config.dataset_path": config.get("dataset_path")})
    translation.put(("trainer",), plain.get("model_name"), "model_name")
    translation.put(
        ("config",),
        {key: value for key, value in config.items() if key not in (*_TRAINING_CONFIG, "dataset_path")},
        "config",
    )
    for key, path in _TRAINING_CONFIG.items():
        translation.put(
            path,
            _allowed_backends(config.get(key)) if key == "executor" else config.get(key),
            f"config.{key}",
        )
    return translation


def translate_model_training_body(model: str, body: Any) -> Translation:
    """Translate the body of `POST /models/{model}/train`: a dataset, a compute profile and the settings."""
    plain = _normalize_body({} if body is None else body)
    _require_known_keys(plain, _MODEL_TRAINING_KEYS)
    if plain.get("dataset_version_id") is not None:
        raise InvalidSpec(
            [
                Problem(
                    "dataset_version_id",
                    preview(plain["dataset_version_id"]),
                    "is not supported: this server does not store datasets",
                    "give a path or a URL as `dataset`",
                    SOURCE,
                )
            ]
        )
    sent = {key: plain[key] for key in ("config", *_DATASET_KEYS) if key in plain}
    translation = translate_training_body({**sent, "model_name": model})
    translation.put(("placement", "profile"), plain.get("compute_profile_id"), "compute_profile_id")
    return translation


def translate_cloud_training_body(body: Any) -> Translation:
    """Translate `{"datasetPath", "region", "flavor", "trainingSettings": {"framework", "modelVariant", ...}}`."""
    plain = _normalize_body(body)
    _require_known_keys(plain, (*_CLOUD_TRAINING, "trainingSettings", *_MACHINE_KEYS))
    given = [key for key in _MACHINE_KEYS if plain.get(key) is not None]
    if given:
        raise InvalidSpec(
            [Problem(key, None, "is not supported in a job", _MACHINE_KEYS[key], SOURCE) for key in given]
        )
    settings = dict(_section(plain, "trainingSettings"))
    framework = settings.pop("framework", None)
    if framework is None:
        raise invalid_document(SOURCE, "is required; add this field", place="trainingSettings.framework")
    translation = Translation()
    translation.put(("trainer",), framework, "trainingSettings.framework")
    config = {_CLOUD_SETTINGS.get(key, key): value for key, value in settings.items()}
    translation.put(("config",), config, "trainingSettings")
    for key, path in _CLOUD_TRAINING.items():
        translation.put(path, plain.get(key), key)
    return translation


def translate_orchestrate_body(body: Any) -> Translation:
    """Translate the body of `POST /orchestrate` to a job spec. `organisation_of` handles the field `tenant_id`."""
    plain = _normalize_body(body)
    _require_known_keys(plain, _ORCHESTRATE_KEYS)
    model, training = dict(_section(plain, "model_params")), dict(_section(plain, "training_params"))
    architecture = model.pop("architecture", None)
    if architecture is None:
        raise invalid_document(SOURCE, "is required; add this field", place="model_params.architecture")
    translation = Translation()
    given = {key: plain.get(key) for key in _DATASET_KEYS}
    given |= {f"training_params.{key}": training.pop(key, None) for key in _DATASET_KEYS}
    _put_dataset(translation, given)
    translation.put(("trainer",), architecture, "model_params.architecture")
    translation.put(("config",), {**training, **model}, "training_params")
    translation.put(("name",), _slug(plain.get("custom_name")), "custom_name")
    translation.put(("tags",), plain.get("wandb_tags"), "wandb_tags")
    return translation


def organisation_of(body: Any) -> str | None:
    """Return the organisation that a body names in `tenant_id`, or None if it names none.

    The caller's token must belong to this organisation.
    """
    tenant = body.get("tenant_id") if isinstance(body, Mapping) else None
    if tenant is None or isinstance(tenant, str):
        return tenant
    raise invalid_document(
        SOURCE,
        f"{preview(tenant)} is not a valid organisation name; write the name as a string",
        place="tenant_id",
        value=preview(tenant),
    )


def translate_requirements_body(body: Any) -> Translation:
    """Translate a body with `requirements` (`{"gpu_memory_gb": 16}`) and `preferences` (`{"optimize_for": "cost"}`)."""
    plain = _normalize_body(body)
    requirements, preferences = _section(plain, "requirements"), _section(plain, "preferences")
    _require_known_keys(requirements, _REQUIREMENTS, "requirements.")
    _require_known_keys(preferences, _PREFERENCE_KEYS, "preferences.")
    translation = Translation(
        {key: value for key, value in plain.items() if key not in ("requirements", "preferences")}
    )
    for key, path in _REQUIREMENTS.items():
        translation.put(
            path, _with_unit(requirements.get(key), _UNIT_SUFFIXES.get(key, "")), f"requirements.{key}"
        )
    translation.put(
        ("placement", "strategy"), _strategy(preferences.get("optimize_for")), "preferences.optimize_for"
    )
    translation.put(
        ("placement", "allowed"), preferences.get("allowed_backends"), "preferences.allowed_backends"
    )
    return translation


def _put_dataset(translation: Translation, given: Mapping[str, Any]) -> None:
    """Set the dataset that the body names in one of several places; raise InvalidSpec if it is in two of them."""
    named = {place: value for place, value in given.items() if value is not None}
    if len(named) > 1:
        first, second = list(named)[:2]
        message = f"is given twice; leave out {first!r}"
        raise InvalidSpec([Problem(second, preview(named[second]), message, source=SOURCE)])
    for place, value in named.items():
        translation.put(("dataset",), value, place)


def _strategy(goal: Any) -> str | None:
    if goal is None:
        return None
    if isinstance(goal, str) and (goal in _STRATEGY_NAMES or goal in STRATEGIES):
        return _STRATEGY_NAMES.get(goal, goal)
    message = f"{preview(goal)!r} is not one of {', '.join(_STRATEGY_NAMES)}"
    near = did_you_mean(str(goal), _STRATEGY_NAMES)
    raise InvalidSpec([Problem("preferences.optimize_for", preview(goal), message, near, SOURCE)])


def _normalize_body(body: Any) -> dict[str, Any]:
    if not isinstance(body, Mapping):
        raise invalid_document(
            SOURCE,
            'is not a JSON object; send an object such as {"script": "train.py"}',
            value=preview(body),
        )
    normalizer = Normalizer()
    plain: dict[str, Any] = normalizer.normalize(body)
    if normalizer.findings:
        raise InvalidSpec(
            [
                Problem(format_path(path), value, message, "", SOURCE)
                for path, value, message in normalizer.findings
            ]
        )
    return plain


def _section(plain: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = plain.get(key)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise invalid_document(
            SOURCE,
            f"{preview(value)!r} is not a JSON object; write it as {{...}}",
            place=key,
            value=preview(value),
        )
    return value


def _require_known_keys(
    plain: Mapping[str, Any], known: Mapping[str, Any] | tuple[str, ...], prefix: str = ""
) -> None:
    unknown = [key for key in plain if key not in known]
    if unknown:
        raise InvalidSpec(
            [
                _unknown_key(prefix + key, preview(plain[key]), [prefix + name for name in known])
                for key in unknown
            ]
        )


def _unknown_key(path: str, value: Any, known: list[str]) -> Problem:
    return Problem(path, value, "unknown key", did_you_mean(path, known), SOURCE)


def _allowed_backends(executor: Any) -> Any:
    """Return the allowed backends, or None for `auto`, which lets the planner choose."""
    return None if executor in (None, "auto") else executor


def _with_unit(value: Any, unit: str) -> Any:
    numeric = isinstance(value, int | float) and not isinstance(value, bool)
    return f"{value}{unit}" if unit and numeric else value


def _slug(name: Any) -> Any:
    """Convert free text to a valid job name, such as `My run!` to `My-run`.

    None if no valid character is left; values that are not text are returned unchanged.
    """
    if not isinstance(name, str):
        return name
    return re.sub(r"[^A-Za-z0-9._]+", "-", name)[:100].strip("-._") or None
