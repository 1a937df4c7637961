"""Convert a spec to a mapping in the form that people write: `timeout: 6h` instead of `timeout_s: 21600.0`."""

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

from anygpu.errors import InvalidSpec
from anygpu.spec import shorthand, units
from anygpu.spec.documents import parse_scalar
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.load import from_mapping

_DURATION_UNITS = (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1))


def short_form(spec: JobSpec) -> dict[str, Any]:
    """Return the fields of the spec that differ from their defaults, in short form where that loses nothing.

    A job that commands would name after its script gets `name: null`, which keeps it without a name.
    """
    exact = spec.model_dump(mode="json", exclude_defaults=True)
    short = _shorten(exact)
    if not _is_same(short, spec):
        short = exact
    unnamed = spec.name is None and (spec.script or spec.trainer or isinstance(spec.command, tuple))
    return {**short, "name": None} if unnamed else short


def _is_same(mapping: Mapping[str, Any], spec: JobSpec) -> bool:
    try:
        return from_mapping(mapping).model_dump() == spec.model_dump()
    except InvalidSpec:
        return False


def _shorten(exact: Mapping[str, Any]) -> dict[str, Any]:
    short = dict(exact)
    for section, shorten in _SECTIONS.items():
        if isinstance(short.get(section), Mapping):
            short[section] = shorten(short[section])
    return short


def _resources(section: Mapping[str, Any]) -> dict[str, Any]:
    short = _renamed(section, {"memory_gib": ("memory", _size), "disk_gib": ("disk", _size)})
    if isinstance(short.get("gpu"), Mapping):
        short["gpu"] = _gpu(short["gpu"])
    if "cpus" in short:
        short["cpus"] = _whole(short["cpus"])
    return short


def _gpu(gpu: Mapping[str, Any]) -> Any:
    """Return `A100:8`, `24GiB:2`, `A100` or `2`, or the mapping if that would mean something else."""
    parts = [gpu.get("kind"), _size(gpu["memory_gib"]) if "memory_gib" in gpu else None, gpu.get("count")]
    given = [str(part) for part in parts if part is not None]
    text = ":".join(given) or "1"
    return int(text) if text.isdigit() else text


def _limits(section: Mapping[str, Any]) -> dict[str, Any]:
    return _renamed(
        section,
        {
            "timeout_s": ("timeout", _duration),
            "max_cost_microusd": ("max_cost", _dollars),
            "deadline_s": ("deadline", _duration),
            "deadline_at": ("deadline", str),
        },
    )


def _checkpoint(section: Mapping[str, Any]) -> dict[str, Any]:
    return _renamed(section, {"every_s": ("every", _duration)})


def _placement(section: Mapping[str, Any]) -> dict[str, Any]:
    return _renamed(
        section,
        {
            "hold_on_failure_s": ("hold_on_failure", _duration),
            "expected_duration_s": ("expected_duration", _duration),
        },
    )


def _dataset(section: Mapping[str, Any]) -> Any:
    """Return a URL, a path, or `name@version` as text, or the mapping if the text would mean something else."""
    named = f"{section['name']}@{section['version']}" if {*section} == {"name", "version"} else None
    text = named or next(iter(section.values())) if len(section) == 1 or named else None
    return text if isinstance(text, str) and shorthand.dataset(text) == dict(section) else dict(section)


def _workdir(section: Mapping[str, Any]) -> Any:
    return section["path"] if {*section} == {"path"} else dict(section)


def _secrets(section: Mapping[str, Any]) -> Any:
    return list(section) if all(name == secret for name, secret in section.items()) else dict(section)


_SECTIONS: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {
    "resources": _resources,
    "limits": _limits,
    "checkpoint": _checkpoint,
    "placement": _placement,
    "dataset": _dataset,
    "workdir": _workdir,
    "secrets": _secrets,
}


def _renamed(
    section: Mapping[str, Any], fields: Mapping[str, tuple[str, Callable[[Any], Any]]]
) -> dict[str, Any]:
    """Return the section with fields under their aliases, in the units of the aliases."""
    short: dict[str, Any] = {}
    for name, value in section.items():
        alias, convert = fields.get(name, (name, lambda same: same))
        short[alias] = convert(value)
    return short


def _duration(seconds: float) -> Any:
    """Return a text such as `1h30m`, or the number of seconds if the text would be longer."""
    rest, parts = seconds, []
    for unit, size in _DURATION_UNITS:
        count = int(rest // size)
        rest -= count * size
        parts += [f"{count}{unit}"] if count else []
    text = "".join(parts)
    is_exact = rest == 0 and len(parts) <= 2 and units.seconds(text or "0.1s") == seconds
    return text if is_exact else _whole(seconds)


def _size(gibibytes: float) -> Any:
    text = f"{_whole(gibibytes)}GiB"
    return text if "e" not in text and units.gibibytes(text) == gibibytes else gibibytes


def _dollars(microusd: int) -> Any:
    text = format(Decimal(microusd) / units.MICROS_PER_DOLLAR, "f")
    short = text.rstrip("0").rstrip(".") if "." in text else text
    number = parse_scalar(short)
    return number if str(number) == short and units.microdollars(number) == microusd else short


def _whole(number: float) -> int | float:
    return int(number) if float(number).is_integer() and abs(number) < 1e15 else number
