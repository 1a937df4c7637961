"""Validation errors -> problems a person can act on: the place, the value, and what was probably meant."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from anygpu.errors import Problem
from anygpu.spec.fields import Friendly, Part, Trouble
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.nearest import did_you_mean
from anygpu.spec.plain import MAX_PROBLEMS, Finding, shown
from anygpu.spec.read import Place, dotted

_OUR_WORDS = {
    "Input should": "should",
    "Tuple": "list",
    "tuple": "list",
    "dictionary": "mapping",
    "string": "text",
}
_RENAMED = {"cpu": "cpus", "gpus": "gpu", "accelerators": "gpu", "cmd": "command", "spot": "interruptible"}


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a mapping came from, so that its problems point there."""

    source: str = "spec"
    lines: Mapping[Place, int] = field(default_factory=dict)
    renamed: Mapping[Place, str] = field(default_factory=dict)

    def problem(self, place: Place, value: Any, message: str, suggestion: str = "") -> Problem:
        name = next((self.renamed[part] for part in _upwards(place) if part in self.renamed), dotted(place))
        line = next((self.lines[part] for part in _upwards(place) if part in self.lines), None)
        return Problem(name, shown(value), message, suggestion, self.source, line)


def problems(error: ValidationError, origin: Origin) -> list[Problem]:
    """One problem a place, in the order of the models; nobody reads more than the first fifty."""
    return list(islice(_one_a_place(error, origin), MAX_PROBLEMS))


def _one_a_place(error: ValidationError, origin: Origin) -> Iterator[Problem]:
    seen: set[tuple[str, str]] = set()
    for raw in error.errors(include_url=False):
        for problem in _explained(raw, origin):
            key = (problem.place, problem.message if not problem.place else "")
            if key not in seen:
                seen.add(key)
                yield problem


def _explained(raw: Mapping[str, Any], origin: Origin) -> Iterator[Problem]:
    place, value = _place(raw["loc"]), raw["input"]
    if isinstance(value, Friendly):
        place, value = (*place[:-1], value.name), value.value
    cause = raw.get("ctx", {}).get("error")
    if isinstance(cause, Trouble):
        yield from from_findings(
            [((*place, *part), what, said) for part, what, said in cause.findings], origin
        )
    elif raw["type"] == "extra_forbidden":
        yield origin.problem(place, value, "unknown key", _nearest_key(place))
    else:
        yield origin.problem(place, value, *_words(raw, place, value))


def _words(raw: Mapping[str, Any], place: Place, value: Any) -> tuple[str, str]:
    context = raw.get("ctx", {})
    if raw["type"] == "literal_error":
        return _not_one_of(str(context["expected"]), value)
    if raw["type"] == "missing":
        return "is required", ""
    if raw["type"] in ("model_type", "model_attributes_type"):
        return f"{_quoted(value)} should be a mapping with {_listed(place)}", ""
    said = str(context["error"]) if raw["type"] == "value_error" else raw["msg"]
    for theirs, ours in _OUR_WORDS.items():
        said = said.replace(theirs, ours)
    return f"{_quoted(value)} {said[:1].lower()}{said[1:]}", ""


def _not_one_of(expected: str, value: Any) -> tuple[str, str]:
    allowed = re.findall(r"'([^']*)'", expected)
    return f"{_quoted(value)} is not one of {', '.join(allowed)}", did_you_mean(str(value), allowed)


def _quoted(value: Any) -> str:
    brief = shown(value)
    return repr(brief) if isinstance(value, str) else str(brief)


def _place(loc: tuple[str | int, ...]) -> Place:
    """A key that is wrong is blamed at its own place."""
    return loc[:-1] if loc[-1:] == ("[key]",) else loc


def keys_at(place: Place) -> list[str]:
    """The keys that are valid inside a place."""
    model: type[BaseModel] | None = JobSpec
    for step in place:
        model = model if isinstance(step, int) else _model_of(model, step)
    if model is None:
        return []
    friendly = model.friendly if issubclass(model, Part) else {}
    exact = [name for name in model.model_fields if name not in friendly.values()]
    return [*exact, *friendly, *dict.fromkeys(friendly.values())]


def _listed(place: Place) -> str:
    """The keys worth showing: of two names for a field, the one people write."""
    keys = keys_at(place)
    return ", ".join(key for key in keys if not key.endswith(("_s", "_at", "_gib", "_microusd")))


def _model_of(model: type[BaseModel] | None, name: str) -> type[BaseModel] | None:
    info = model.model_fields.get(name) if model else None
    return _first_model(info.annotation) if info else None


def _first_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for inner in get_args(annotation) if (found := _first_model(inner))), None)


def _nearest_key(place: Place) -> str:
    """The nearest key here; else the same key where it belongs; else nothing."""
    key, here = str(place[-1])[:100], keys_at(place[:-1])
    meant = _RENAMED.get(key, key)
    if meant in here:
        return f"did you mean {meant!r}?"
    elsewhere = [dotted((*section, meant)) for section in _sections() if meant in keys_at(section)]
    if elsewhere:
        return f"did you mean {elsewhere[0]!r}?"
    near = did_you_mean(key, here)
    if near:
        return near
    return f"valid here: {_listed(place[:-1])}" if here and len(place) > 1 else ""


def _sections() -> list[Place]:
    top: list[Place] = [(name,) for name in JobSpec.model_fields if keys_at((name,))]
    return [(), *top, ("resources", "gpu")]


def _upwards(place: Place) -> Iterator[Place]:
    for length in range(len(place), 0, -1):
        yield place[:length]


def from_findings(findings: Iterable[Finding], origin: Origin) -> Iterator[Problem]:
    for place, value, message in findings:
        yield origin.problem(place, value, message if value is None else f"{_quoted(value)} {message}")
