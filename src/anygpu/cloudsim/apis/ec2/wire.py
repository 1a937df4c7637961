"""The format of EC2's requests (form fields, filters) and responses (XML, pages)."""

import datetime as dt
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from anygpu.cloudsim.apis.ec2.errors import Ec2Error

NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"
Fields = dict[str, Any]


def read_form(body: bytes) -> Fields:
    """Parse the form fields of a request.

    `Filter.1.Name=a&Filter.1.Value.1=b` becomes {"Filter": [{"Name": "a", "Value": ["b"]}]}.
    """
    tree: Fields = {}
    for name, value in parse_qsl(body.decode(), keep_blank_values=True):
        *parents, last = name.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    return {name: _lists_for_numbers(value) for name, value in tree.items()}


def _lists_for_numbers(node: Any) -> Any:
    """Replace each dict whose keys are all numbers with a list."""
    if not isinstance(node, dict):
        return node
    if all(name.isdigit() for name in node):
        return [_lists_for_numbers(node[name]) for name in sorted(node, key=int)]
    return {name: _lists_for_numbers(value) for name, value in node.items()}


class RenderedXml(str):
    """Text that is already XML and must not be escaped again, such as the cached XML of an instance."""

    __slots__ = ()


def render(value: Fields) -> RenderedXml:
    return RenderedXml(_content(value))


def xml(name: str, value: Any) -> str:
    """Return a value as an XML element.

    Lists become `<item>` elements, None is omitted, booleans are lower case.
    """
    if value is None:
        return ""
    return f"<{name}>{_content(value)}</{name}>"


def _content(value: Any) -> str:
    if isinstance(value, str):
        return value if isinstance(value, RenderedXml) else escape(value)
    if isinstance(value, dict | Mapping):  # dict first, because isinstance with an abstract class is slow
        return "".join(xml(key, inner) for key, inner in value.items())
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    return "".join(xml("item", inner) for inner in value)


def response(action: str, content: Mapping[str, Any], request_id: str) -> str:
    body = _content({"requestId": request_id, **content})
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<{action}Response xmlns="{NAMESPACE}">{body}</{action}Response>'


def error(code: str, message: str, request_id: str) -> str:
    inner = xml("Errors", {"Error": {"Code": code, "Message": message}}) + xml("RequestID", request_id)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<Response>{inner}</Response>'


def timestamp(at_ms: int | None) -> str | None:
    """Format a time as EC2 does: with milliseconds, which are always zero."""
    return None if at_ms is None else _utc(at_ms).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def reason_time(at_ms: int) -> str:
    """Format a time as EC2 does in the reason of a state change."""
    return _utc(at_ms).strftime("%Y-%m-%d %H:%M:%S GMT")


def _utc(at_ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(at_ms // 1000, dt.UTC)


def tag_set(tags: Mapping[str, str]) -> list[Fields] | None:
    return [{"key": key, "value": value} for key, value in sorted(tags.items())] or None


def tags_for(fields: Fields, resource: str) -> dict[str, str]:
    """Return the tags that a request's TagSpecifications contain for one resource type."""
    specifications = (
        each for each in fields.get("TagSpecification", []) if each.get("ResourceType") == resource
    )
    return {tag["Key"]: tag.get("Value", "") for each in specifications for tag in each.get("Tag", [])}


def is_true(text: str | None) -> bool:
    return (text or "").lower() == "true"


def filters(fields: Fields) -> dict[str, list[str]]:
    return {each["Name"]: each.get("Value", []) for each in fields.get("Filter", [])}


def page(items: Iterable[Any], fields: Fields, default: int = 1000) -> tuple[list[Any], str | None]:
    """Return one page of a list, and the token of the next page (None after the last page)."""
    everything = list(items)
    start = int(fields.get("NextToken") or 0)
    end = start + int(fields.get("MaxResults") or default)
    return everything[start:end], str(end) if end < len(everything) else None


Item = TypeVar("Item")


def apply_filters(
    items: Iterable[Item],
    fields: Fields,
    facts: Callable[[Item], Mapping[str, str | Iterable[str]]],
    tags: Callable[[Item], Mapping[str, str]] = lambda item: {},
) -> list[Item]:
    """Return the items that match all filters of the request.

    `facts` returns the values of an item by filter name. Raise Ec2Error if it has no value for a filter.
    """
    conditions = filters(fields)
    return [
        item
        for item in items
        if all(
            _passes_filter(name, values, partial(facts, item), tags(item))
            for name, values in conditions.items()
        )
    ]


def _passes_filter(
    name: str,
    values: list[str],
    facts: Callable[[], Mapping[str, str | Iterable[str]]],
    tags: Mapping[str, str],
) -> bool:
    if name.startswith("tag:"):
        return _matches_any(tags.get(name.removeprefix("tag:")), values)
    if name == "tag-key":
        return _matches_any(list(tags), values)
    by_name = facts()
    if name not in by_name:
        raise Ec2Error(
            "InvalidParameterValue",
            f"The filter '{name}' is not one that the simulated EC2 supports. Leave it out.",
        )
    return _matches_any(by_name[name], values)


def _matches_any(fact: str | Iterable[str] | None, values: list[str]) -> bool:
    if fact is None:
        return False
    facts = [fact] if isinstance(fact, str) else list(fact)
    return any(fnmatchcase(one, value) for one in facts for value in values)
