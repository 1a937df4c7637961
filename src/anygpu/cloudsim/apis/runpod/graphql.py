"""A small GraphQL interpreter: fields, aliases, arguments and variables; no fragments or directives."""

import dataclasses
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|-?\d+(?:\.\d+)?|[_A-Za-z]\w*|\$\w+|\.\.\.|[{}()\[\]:!=]')
IGNORED = re.compile(r"#[^\n]*")  # comments; blanks and commas are skipped because TOKEN does not match them
LITERALS = {"true": True, "false": False, "null": None}


class GraphqlError(Exception):
    """An invalid query, with the message that a GraphQL server returns."""


@dataclass(frozen=True, slots=True)
class GraphqlField:
    name: str
    alias: str
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    selection: tuple["GraphqlField", ...] = ()


def execute(query: str, variables: Mapping[str, Any], root: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of `root` that the query selects.

    A value may be a function of the field's arguments.
    """
    return _project(GraphqlParser(query, variables).document(), root, "Query")


def _project(selection: Sequence[GraphqlField], source: Mapping[str, Any], of: str) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for field in selection:
        if field.name not in source:
            raise GraphqlError(f'Cannot query field "{field.name}" on type "{of}".')
        result[field.alias] = _value(source[field.name], field)
    return result


def _value(value: Any, field: GraphqlField) -> Any:
    if callable(value):
        value = value(field.arguments)
    if isinstance(value, list):
        return [_value(each, field) for each in value]
    if not isinstance(value, Mapping):
        return value
    if not field.selection:
        raise GraphqlError(f'Field "{field.name}" must have a selection of subfields.')
    return _project(field.selection, value, field.name)


class GraphqlParser:
    """A recursive-descent parser for one document."""

    def __init__(self, query: str, variables: Mapping[str, Any]) -> None:
        self._tokens = TOKEN.findall(IGNORED.sub("", query))
        self._variables = variables

    def document(self) -> tuple[GraphqlField, ...]:
        while self._peek() not in ("{", "("):
            self._take()  # the keyword `query` and the query's name
        if self._peek() == "(":
            self._skip_variable_types()
        return self._selection()

    def _selection(self) -> tuple[GraphqlField, ...]:
        self._expect("{")
        fields = []
        while self._peek() != "}":
            fields.append(self._field())
        self._expect("}")
        return tuple(fields)

    def _field(self) -> GraphqlField:
        alias = name = self._name()
        if self._peek() == ":":
            self._expect(":")
            name = self._name()
        arguments = self._pairs("(", ")") if self._peek() == "(" else {}
        selection = self._selection() if self._peek() == "{" else ()
        return GraphqlField(name, alias, arguments, selection)

    def _pairs(self, opening: str, closing: str) -> dict[str, Any]:
        self._expect(opening)
        pairs: dict[str, Any] = {}
        while self._peek() != closing:
            name = self._name()
            self._expect(":")
            pairs[name] = self._literal()
        self._expect(closing)
        return pairs

    def _literal(self) -> Any:
        match self._peek():
            case "{":
                return self._pairs("{", "}")
            case "[":
                return self._list()
            case token if token.startswith("$"):
                return self._variables.get(self._take()[1:])
            case token if token in LITERALS or token[0] in '"-0123456789':
                return LITERALS[self._take()] if token in LITERALS else json.loads(self._take())
        return self._name()  # a value of an enum

    def _list(self) -> list[Any]:
        self._expect("[")
        values = []
        while self._peek() != "]":
            values.append(self._literal())
        self._expect("]")
        return values

    def _skip_variable_types(self) -> None:
        while self._take() != ")":
            pass

    def _name(self) -> str:
        token = self._take()
        if not (token[0].isalpha() or token[0] == "_"):
            raise GraphqlError(f'Syntax Error: Expected Name, found "{token}".')
        return token

    def _expect(self, token: str) -> None:
        actual = self._take()
        if actual != token:
            raise GraphqlError(f'Syntax Error: Expected "{token}", found "{actual}".')

    def _peek(self) -> str:
        if not self._tokens:
            raise GraphqlError("Syntax Error: Unexpected <EOF>.")
        return str(self._tokens[0])

    def _take(self) -> str:
        self._peek()
        return str(self._tokens.pop(0))
