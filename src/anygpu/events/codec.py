"""Convert events and views to JSON and back, by type and version."""

from collections.abc import Callable
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from anygpu.errors import Internal
from anygpu.events.types import EVENTS, Event
from anygpu.events.view import JobView

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]

# (type, version) -> function that converts data of this version to the next version.
UPCASTERS: dict[tuple[str, int], Upcaster] = {}

_ADAPTERS: dict[str, TypeAdapter[Any]] = {}
_TYPES: dict[str, type[Event]] = {kind.__name__: kind for kind in EVENTS}


def encode(event: Event) -> bytes:
    adapter: TypeAdapter[Event] = _adapter(type(event))
    return adapter.dump_json(event, exclude_defaults=True)


def decode(kind: str, version: int, data: bytes | str) -> Event:
    cls = _TYPES.get(kind)
    if cls is None:
        raise Internal(
            f"the journal has an event of unknown type {kind!r}, written by a newer anygpu; update this server"
        )
    adapter: TypeAdapter[Event] = _adapter(cls)
    if version == cls.VERSION:
        return adapter.validate_json(data)
    return adapter.validate_python(_upcast(kind, version, cls.VERSION, data))


def encode_view(view: JobView) -> bytes:
    return _view_adapter().dump_json(view, exclude_defaults=True)


def decode_view(data: bytes | str) -> JobView:
    return _view_adapter().validate_json(data)


def _upcast(kind: str, version: int, wanted: int, data: bytes | str) -> dict[str, Any]:
    import json

    fields: dict[str, Any] = json.loads(data)
    for old in range(version, wanted):
        fields = UPCASTERS[kind, old](fields)
    return fields


def _adapter(cls: type[Event]) -> TypeAdapter[Any]:
    known = _ADAPTERS.get(cls.__name__)
    if known is None:
        known = _ADAPTERS[cls.__name__] = TypeAdapter(cls)
    return known


@cache
def _view_adapter() -> TypeAdapter[JobView]:
    return TypeAdapter(JobView)
