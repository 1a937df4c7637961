"""Bodies in, bodies out: JSON read with care and written with the numbers JSON lacks."""

import json
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from anygpu.errors import InvalidSpec, Problem
from anygpu.server.encoding import dumps
from anygpu.server.http.errors import MalformedRequest

DEEPEST = 100


class JsonResponse(Response):
    """A JSON answer. NaN and infinities become strings."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return dumps(content).encode()


async def read_json(request: Request) -> Any:
    """The body as JSON; None when there is none."""
    try:
        body = await request.body()
    except ClientDisconnect:
        raise MalformedRequest("the connection ended before the body") from None
    if not body.strip():
        return None
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise MalformedRequest(f"the body is not JSON: {error}") from None


async def read_object(request: Request) -> dict[str, Any]:
    """The body as a JSON object; an empty body is an empty object."""
    value = await read_json(request)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidSpec([Problem("", None, "the body must be a JSON object", source="body")])
    return value


def text_field(body: dict[str, Any], name: str, *, default: str | None = None, most: int = 200) -> str:
    """A text in a body, or InvalidSpec naming the place."""
    value = body.get(name, default)
    if not isinstance(value, str):
        raise InvalidSpec([Problem(name, value, "a text is needed", source="body")])
    if len(value) > most:
        raise InvalidSpec([Problem(name, value[:50], f"at most {most} characters", source="body")])
    return value


def number_field(body: dict[str, Any], name: str) -> float | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e10:
        raise InvalidSpec([Problem(name, value, "a number above 0 is needed", source="body")])
    return float(value)


def only_fields(body: dict[str, Any], *names: str) -> None:
    wrong = [key for key in body if key not in names]
    if wrong:
        known = f"known: {', '.join(names)}"
        raise InvalidSpec([Problem(key, None, "unknown key", known, "body") for key in wrong])


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")
