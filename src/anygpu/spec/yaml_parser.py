"""Parse YAML into a mapping with line numbers, within limits on size and depth.

The parser reads PyYAML's event stream instead of its tree. With the tree, deep nesting ends in a
RecursionError, a repeated key is silently accepted, and nested aliases grow without limit.
"""

from dataclasses import dataclass, field
from typing import Any

import yaml

from anygpu.errors import InvalidSpec, Problem
from anygpu.spec.documents import (
    MAX_DEPTH,
    MAX_VALUES,
    Document,
    FieldPath,
    format_path,
    invalid_document,
    parse_scalar,
)

_PREFIX = "tag:yaml.org,2002:"
_TAG_TYPES: dict[str, type] = {"str": str, "int": int, "float": float, "bool": bool}
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class _OpenCollection:
    """A mapping or list that is still being read."""

    content: dict[str, Any] | list[Any]
    place: FieldPath
    anchor: str | None
    key: str | None = None


@dataclass(slots=True)
class _YamlBuilder:
    source: str
    root: Any = None
    open: list[_OpenCollection] = field(default_factory=list)
    lines: dict[FieldPath, int] = field(default_factory=dict)
    anchors: dict[str, Any] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    nodes: int = 0
    documents: int = 0

    def error(self, line: int, message: str, path: str = "", value: Any = None) -> InvalidSpec:
        return invalid_document(self.source, message, place=path, line=line, value=value)

    def handle(self, event: Any) -> None:
        line = event.start_mark.line + 1
        if isinstance(event, yaml.DocumentStartEvent):
            self._document(line)
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event, line)
        elif isinstance(event, yaml.AliasEvent):
            self._alias(event.anchor, line)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._begin(event, line)
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._end()

    def _scalar(self, event: Any, line: int) -> None:
        value = event.value if self._expects_key() else _scalar_value(event, self, line)
        if event.anchor:
            self.anchors[event.anchor] = value
        self._put(value, line)

    def _expects_key(self) -> bool:
        return bool(self.open) and isinstance(self.open[-1].content, dict) and self.open[-1].key is None

    def _document(self, line: int) -> None:
        self.documents += 1
        if self.documents > 1:
            raise self.error(
                line, "a second YAML document ('---') starts here; write each job in a file of its own"
            )

    def _begin(self, event: Any, line: int) -> None:
        content: dict[str, Any] | list[Any] = {} if isinstance(event, yaml.MappingStartEvent) else []
        if event.tag not in (None, "!", _PREFIX + ("map" if isinstance(content, dict) else "seq")):
            raise self.error(line, f"the YAML tag {event.tag} is not supported here; remove it")
        if len(self.open) >= MAX_DEPTH:
            raise self.error(
                line, f"is nested more than {MAX_DEPTH} levels deep, which is the limit; use fewer levels"
            )
        if self._expects_key():
            raise self.error(
                line,
                "a key must be a string; write it as one word or in quotation marks",
                path=format_path(self.open[-1].place),
            )
        self.open.append(_OpenCollection(content, self._current_path(), event.anchor))
        self.lines.setdefault(self._current_path(), line)

    def _end(self) -> None:
        done = self.open.pop()
        if done.anchor:
            self.anchors[done.anchor] = done.content
        self._store(done.content)

    def _current_path(self) -> FieldPath:
        if not self.open:
            return ()
        parent = self.open[-1]
        if isinstance(parent.content, list):
            return (*parent.place, len(parent.content))
        return parent.place if parent.key is None else (*parent.place, parent.key)

    def _put(self, value: Any, line: int) -> None:
        if self._expects_key():
            self._key(value, line)
        else:
            self.lines.setdefault(self._current_path(), line)
            self._store(value)

    def _key(self, key: Any, line: int) -> None:
        parent = self.open[-1]
        if not isinstance(key, str):
            raise self.error(
                line,
                "a key must be a string; write it as one word or in quotation marks",
                path=format_path(parent.place),
            )
        path = (*parent.place, key)
        if key in parent.content:
            message = f"the key is there twice, first on line {self.lines[path]}; remove one of the two"
            self.problems.append(Problem(format_path(path), key, message, source=self.source, line=line))
        parent.key = key
        self.lines.setdefault(path, line)

    def _alias(self, name: str | None, line: int) -> None:
        if name is None or name not in self.anchors:
            raise self.error(
                line,
                f"the alias *{name} refers to an anchor that is not defined above it; add &{name} to an earlier "
                "value",
                value=name,
            )
        value = self.anchors[name]
        self._count(_count_values(value), line)
        self._put(value, line)

    def _store(self, value: Any) -> None:
        self._count(1, None)
        if not self.open:
            self.root = value
            return
        parent = self.open[-1]
        if isinstance(parent.content, list):
            parent.content.append(value)
        elif parent.key is not None:
            parent.content[parent.key] = value
            parent.key = None

    def _count(self, nodes: int, line: int | None) -> None:
        self.nodes += nodes
        if self.nodes > MAX_VALUES:
            raise self.error(
                line or 1,
                f"contains more than {MAX_VALUES:,} values (aliases are counted in full), which is the limit; "
                "remove some",
            )


def parse_yaml(text: str, source: str) -> Document:
    tree = _YamlBuilder(source)
    try:
        for event in yaml.parse(text, Loader=_Loader):
            tree.handle(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise tree.error(
            mark.line + 1 if mark else 1, f"is not valid YAML: {error.problem or error}"
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError) as error:
        raise tree.error(1, f"is not valid YAML: {str(error).splitlines()[0]}") from None
    if tree.problems:
        raise InvalidSpec(tree.problems)
    if not isinstance(tree.root, dict):
        raise tree.error(
            1,
            "is not a mapping of keys to values; write lines such as 'script: train.py'",
            value=str(tree.root)[:80],
        )
    return Document(tree.root, source, tree.lines)


def _scalar_value(event: Any, tree: _YamlBuilder, line: int) -> Any:
    plain = parse_scalar(event.value) if event.implicit[0] else event.value
    if event.tag is None or event.implicit[0] or event.tag == "!":
        return plain
    kind = _TAG_TYPES.get(event.tag.removeprefix(_PREFIX))
    value = event.value if kind is str else parse_scalar(event.value)
    if kind is None or not isinstance(value, kind):
        raise tree.error(
            line, f"the YAML tag {event.tag} is not supported here; remove it", value=event.value[:80]
        )
    return value


def _count_values(value: Any) -> int:
    """Return the number of values that an alias adds.

    Counting stops above MAX_VALUES, because nested aliases can multiply the number.
    """
    waiting, total = [value], 0
    while waiting and total <= MAX_VALUES:
        item = waiting.pop()
        total += 1
        if isinstance(item, dict):
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)
    return total
