"""EC2's filters: a value of a filter may have the wildcards * and ?; an item must match one value of each."""

from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import partial
from typing import TypeVar

from anygpu.testing.cloud.dialects.ec2.failure import Failure
from anygpu.testing.cloud.dialects.ec2.wire import Fields, filters

Item = TypeVar("Item")


def matching(
    items: Iterable[Item],
    fields: Fields,
    facts: Callable[[Item], Mapping[str, str | Iterable[str]]],
    tags: Callable[[Item], Mapping[str, str]] = lambda item: {},
) -> list[Item]:
    """Those that pass the request's filters; a filter that is not among the facts is refused by name."""
    wanted = filters(fields)
    return [
        item
        for item in items
        if all(_passes(name, values, partial(facts, item), tags(item)) for name, values in wanted.items())
    ]


def _passes(
    name: str,
    values: list[str],
    facts: Callable[[], Mapping[str, str | Iterable[str]]],
    tags: Mapping[str, str],
) -> bool:
    if name.startswith("tag:"):
        return _any(tags.get(name.removeprefix("tag:")), values)
    if name == "tag-key":
        return _any(list(tags), values)
    known = facts()
    if name not in known:
        raise Failure("InvalidParameterValue", f"The filter '{name}' is invalid")
    return _any(known[name], values)


def _any(fact: str | Iterable[str] | None, values: list[str]) -> bool:
    if fact is None:
        return False
    found = [fact] if isinstance(fact, str) else list(fact)
    return any(fnmatchcase(one, value) for one in found for value in values)
