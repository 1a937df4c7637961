"""Convert events and the states (views) of jobs to JSON and back, by type and version."""

from collections.abc import Callable
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from anygpu.errors import AnygpuError, Internal, describe_error
from anygpu.events.types import EVENTS, DamagedEvent, Event
from anygpu.events.view import JobView

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]

# (type, version) -> function that converts data of this version to the next version.
UPCASTERS: dict[tuple[str, int], Upcaster] = {}

# What decoding damaged data raises. ValidationError is a ValueError.
DECODE_ERRORS = (ValueError, TypeError, KeyError, RecursionError, AnygpuError)

_ADAPTERS: dict[str, TypeAdapter[Any]] = {}
_TYPES: dict[str, type[Event]] = {kind.__name__: kind for kind in EVENTS}


def encode(event: Event) -> bytes:
    adapter: TypeAdapter[Event] = _adapter(type(event))
    return adapter.dump_json(event, exclude_defaults=True)


def decode(kind: str, version: int, data: bytes | str) -> Event:
    cls = _TYPES.get(kind)
    if cls is None:
        raise Internal(
            f"The database has an event of the unknown type {kind!r}. A newer version of anygpu wrote it; "
            "update anygpu on this machine."
        )
    if version > cls.VERSION:
        raise Internal(
            f"The database has an event with the unknown format version {version}. A newer version of anygpu "
            "wrote it; update anygpu on this machine."
        )
    adapter: TypeAdapter[Event] = _adapter(cls)
    if version == cls.VERSION:
        return adapter.validate_json(data)
    return adapter.validate_python(_upcast(kind, version, cls.VERSION, data))


def decode_or_damaged(kind: str, version: int, data: bytes | str) -> Event:
    """Decode an event. Return a `DamagedEvent` if it cannot be read."""
    try:
        return decode(kind, version, data)
    except DECODE_ERRORS as error:
        return DamagedEvent(kind=str(kind), reason=describe_decode_error(error))


def describe_decode_error(error: Exception) -> str:
    if not isinstance(error, ValidationError):
        return describe_error(error)
    first = error.errors(include_url=False, include_input=False)[0]
    field = ".".join(map(str, first["loc"]))
    return f"{field}: {first['msg']}" if field else first["msg"]


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
