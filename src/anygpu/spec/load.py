"""Load a JobSpec from a mapping, a text or a file, and explain every validation error."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from anygpu.errors import InvalidSpec, Problem
from anygpu.spec.documents import Document, FieldPath, format_path, read_file, read_toml, read_yaml
from anygpu.spec.fields import AliasedValue, FieldErrors, SpecModel
from anygpu.spec.jobspec import JobSpec, find_conflicts
from anygpu.spec.normalize import MAX_PROBLEMS, Finding, Normalizer, preview
from anygpu.suggest import did_you_mean

_PLAIN_WORDS = {
    "Input should": "should",
    "Tuple": "list",
    "tuple": "list",
    "dictionary": "mapping",
    "string": "text",
}
_COMMON_MISTAKES = {
    "cpu": "cpus",
    "gpus": "gpu",
    "accelerators": "gpu",
    "cmd": "command",
    "spot": "interruptible",
}


@dataclass(frozen=True, slots=True)
class SpecOrigin:
    """The source of a spec mapping.

    Error messages use it to show the file, the line, and the name that the caller used for a field.
    """

    source: str = "spec"
    lines: Mapping[FieldPath, int] = field(default_factory=dict)
    renamed: Mapping[FieldPath, str] = field(default_factory=dict)

    def problem(self, path: FieldPath, value: Any, message: str, suggestion: str = "") -> Problem:
        name = next(
            (self.renamed[part] for part in _ancestors(path) if part in self.renamed), format_path(path)
        )
        line = next((self.lines[part] for part in _ancestors(path) if part in self.lines), None)
        return Problem(name, preview(value), message, suggestion, self.source, line)


def explain_errors(error: ValidationError, origin: SpecOrigin) -> list[Problem]:
    """Translate validation errors into problems: the first error of each field, at most MAX_PROBLEMS."""
    return list(islice(_first_per_path(error, origin), MAX_PROBLEMS))


def _first_per_path(error: ValidationError, origin: SpecOrigin) -> Iterator[Problem]:
    seen: set[tuple[str, str]] = set()
    for raw in error.errors(include_url=False):
        for problem in _explain_error(raw, origin):
            key = (problem.place, problem.message if not problem.place else "")
            if key not in seen:
                seen.add(key)
                yield problem


def _explain_error(raw: Mapping[str, Any], origin: SpecOrigin) -> Iterator[Problem]:
    path, value = _error_path(raw["loc"]), raw["input"]
    if isinstance(value, AliasedValue):
        path, value = (*path[:-1], value.name), value.value
    cause = raw.get("ctx", {}).get("error")
    if isinstance(cause, FieldErrors):
        yield from explain_findings(
            [((*path, *part), value, message) for part, value, message in cause.findings], origin
        )
    elif raw["type"] == "extra_forbidden":
        yield origin.problem(path, value, "unknown key", _suggest_key(path))
    else:
        yield origin.problem(path, value, *_describe_error(raw, path, value))


def _describe_error(raw: Mapping[str, Any], path: FieldPath, value: Any) -> tuple[str, str]:
    context = raw.get("ctx", {})
    if raw["type"] == "literal_error":
        return _not_one_of(str(context["expected"]), value)
    if raw["type"] == "missing":
        return "is required; add this field", ""
    if raw["type"] in ("model_type", "model_attributes_type"):
        return f"{_quote(value)} is not a mapping; give one with keys of this list: {_list_keys(path)}", ""
    message = str(context["error"]) if raw["type"] == "value_error" else raw["msg"]
    for theirs, ours in _PLAIN_WORDS.items():
        message = message.replace(theirs, ours)
    return f"{_quote(value)} {message[:1].lower()}{message[1:]}", ""


def _not_one_of(expected: str, value: Any) -> tuple[str, str]:
    allowed = re.findall(r"'([^']*)'", expected)
    return f"{_quote(value)} is not one of {', '.join(allowed)}", did_you_mean(str(value), allowed)


def _quote(value: Any) -> str:
    brief = preview(value)
    return repr(brief) if isinstance(value, str) else str(brief)


def _error_path(loc: tuple[str | int, ...]) -> FieldPath:
    """Return the path of an error. An error about a key of a mapping has the path of that key."""
    return loc[:-1] if loc[-1:] == ("[key]",) else loc


def keys_at(path: FieldPath) -> list[str]:
    """Return the keys that are valid at a path."""
    model: type[BaseModel] | None = JobSpec
    for step in path:
        model = model if isinstance(step, int) else _model_of(model, step)
    if model is None:
        return []
    friendly = model.aliases if issubclass(model, SpecModel) else {}
    exact = [name for name in model.model_fields if name not in friendly.values()]
    return [*exact, *friendly, *dict.fromkeys(friendly.values())]


def _list_keys(path: FieldPath) -> str:
    """List the valid keys at a path as text. For a field with an alias, only the alias is shown."""
    keys = keys_at(path)
    return ", ".join(key for key in keys if not key.endswith(("_s", "_at", "_gib", "_microusd")))


def _model_of(model: type[BaseModel] | None, name: str) -> type[BaseModel] | None:
    info = model.model_fields.get(name) if model else None
    return _first_model(info.annotation) if info else None


def _first_model(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for inner in get_args(annotation) if (model := _first_model(inner))), None)


def _suggest_key(path: FieldPath) -> str:
    """Suggest a similar key at the same path, or the section that has this key."""
    key, here = str(path[-1])[:100], keys_at(path[:-1])
    corrected = _COMMON_MISTAKES.get(key, key)
    if corrected in here:
        return f"did you mean {corrected!r}?"
    elsewhere = [
        format_path((*section, corrected)) for section in _sections() if corrected in keys_at(section)
    ]
    if elsewhere:
        return f"did you mean {elsewhere[0]!r}?"
    near = did_you_mean(key, here)
    if near:
        return near
    return f"the valid keys are {_list_keys(path[:-1])}" if here and len(path) > 1 else ""


def _sections() -> list[FieldPath]:
    top: list[FieldPath] = [(name,) for name in JobSpec.model_fields if keys_at((name,))]
    return [(), *top, ("resources", "gpu")]


def _ancestors(path: FieldPath) -> Iterator[FieldPath]:
    for length in range(len(path), 0, -1):
        yield path[:length]


def explain_findings(findings: Iterable[Finding], origin: SpecOrigin) -> Iterator[Problem]:
    for path, value, message in findings:
        yield origin.problem(path, value, message if value is None else f"{_quote(value)} {message}")


def from_mapping(
    data: Any,
    *,
    source: str = "spec",
    lines: Mapping[FieldPath, int] | None = None,
    renamed: Mapping[FieldPath, str] | None = None,
) -> JobSpec:
    """Validate a mapping and return the spec.

    Raises InvalidSpec with all problems; `data` may have any shape. `lines` has the line number of each field
    in the source. `renamed` has the names that the caller used for fields.
    """
    origin = SpecOrigin(source, lines or {}, renamed or {})
    if not isinstance(data, Mapping):
        raise InvalidSpec(
            [
                origin.problem(
                    (), data, "is not a mapping of keys to values; give one such as {'script': 'train.py'}"
                )
            ]
        )
    normalizer = Normalizer()
    plain = normalizer.normalize(data)
    if normalizer.findings:
        raise InvalidSpec(list(explain_findings(normalizer.findings, origin)))
    return _validate(plain, origin)


def from_document(document: Document) -> JobSpec:
    return from_mapping(document.data, source=document.source, lines=document.lines)


def from_yaml(text: str, source: str = "spec") -> JobSpec:
    return from_document(read_yaml(text, source))


def from_toml(text: str, source: str = "spec") -> JobSpec:
    return from_document(read_toml(text, source))


def from_file(path: str | Path) -> JobSpec:
    return from_document(read_file(Path(path)))


def _validate(plain: dict[str, Any], origin: SpecOrigin) -> JobSpec:
    try:
        return JobSpec.model_validate(plain)
    except ValidationError as error:
        problems = explain_errors(error, origin)
    raise InvalidSpec(_with_conflicts(problems, plain, origin)) from None


def _with_conflicts(problems: list[Problem], plain: dict[str, Any], origin: SpecOrigin) -> list[Problem]:
    """Return the problems plus the conflicts between fields.

    Pydantic checks for conflicts only when every single field is valid.
    """
    paths = {problem.place for problem in problems}
    conflicts = [
        problem for problem in explain_findings(find_conflicts(plain), origin) if problem.place not in paths
    ]
    return sorted(problems + conflicts, key=lambda problem: problem.line or 0)
