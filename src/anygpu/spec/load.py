"""A mapping, a text or a file -> JobSpec, or InvalidSpec with every problem found."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from anygpu.errors import InvalidSpec, Problem
from anygpu.spec import explain
from anygpu.spec.explain import Origin
from anygpu.spec.jobspec import JobSpec, misfits
from anygpu.spec.plain import PlainCopy
from anygpu.spec.read import Document, Place, read_file, read_toml, read_yaml


def from_mapping(
    data: Any,
    *,
    source: str = "spec",
    lines: Mapping[Place, int] | None = None,
    renamed: Mapping[Place, str] | None = None,
) -> JobSpec:
    """Any value at all -> JobSpec. What is wrong is InvalidSpec, whatever the shape.

    `lines` and `renamed` say where each place stands in what the person wrote.
    """
    origin = Origin(source, lines or {}, renamed or {})
    if not isinstance(data, Mapping):
        raise InvalidSpec([origin.problem((), data, "is not a mapping of keys to values")])
    copy = PlainCopy()
    plain = copy.of(data)
    if copy.findings:
        raise InvalidSpec(list(explain.from_findings(copy.findings, origin)))
    return _validated(plain, origin)


def from_document(document: Document) -> JobSpec:
    return from_mapping(document.data, source=document.source, lines=document.lines)


def from_yaml(text: str, source: str = "spec") -> JobSpec:
    return from_document(read_yaml(text, source))


def from_toml(text: str, source: str = "spec") -> JobSpec:
    return from_document(read_toml(text, source))


def from_file(path: str | Path) -> JobSpec:
    return from_document(read_file(Path(path)))


def _validated(plain: dict[str, Any], origin: Origin) -> JobSpec:
    try:
        return JobSpec.model_validate(plain)
    except ValidationError as error:
        found = explain.problems(error, origin)
    raise InvalidSpec(_with_misfits(found, plain, origin)) from None


def _with_misfits(found: list[Problem], plain: dict[str, Any], origin: Origin) -> list[Problem]:
    """pydantic looks at the whole only when every field is right; people want all problems at once."""
    said = {problem.place for problem in found}
    more = [problem for problem in explain.from_findings(misfits(plain), origin) if problem.place not in said]
    return sorted(found + more, key=lambda problem: problem.line or 0)
