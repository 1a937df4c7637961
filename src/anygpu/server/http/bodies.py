"""Read JSON request bodies, and render JSON responses with strings for the numbers that JSON lacks."""

import json
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from anygpu.api.base import ApiModel
from anygpu.errors import InvalidSpec, Problem
from anygpu.server.encoding import dumps
from anygpu.server.http.errors import MalformedRequest

M = TypeVar("M", bound=ApiModel)
SHOWN_CHARACTERS = 50


class JsonResponse(Response):
    """A JSON response from a model or plain data. NaN and infinities become strings."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return dumps(content.model_dump() if isinstance(content, BaseModel) else content).encode()


async def read_body(request: Request) -> bytes:
    try:
        return await request.body()
    except ClientDisconnect:
        raise MalformedRequest(
            "the connection ended before the whole body had arrived; send the request again"
        ) from None


async def read_json(request: Request) -> Any:
    """Return the request body as JSON data; None if the body is empty."""
    body = await read_body(request)
    if not body.strip():
        return None
    try:
        return json.loads(body, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise MalformedRequest(
            f"the body of the request is not valid JSON: {error}; send a JSON object"
        ) from None


async def read_object(request: Request) -> dict[str, Any]:
    """Return the request body as a JSON object; an empty dictionary if the body is empty."""
    value = await read_json(request)
    if value is None and not (await read_body(request)).strip():
        return {}
    if not isinstance(value, dict):
        raise InvalidSpec(
            [
                Problem(
                    "",
                    None,
                    'the body of the request is not a JSON object; send one such as {"name": "value"}',
                    source="body",
                )
            ]
        )
    return value


def parse_body(model: type[M], body: dict[str, Any]) -> M:
    """Validate a body and return the model. Raise InvalidSpec with every wrong field."""
    try:
        return model.model_validate(body)
    except ValidationError as error:
        problems = [_problem(model, each) for each in error.errors(include_url=False)]
    raise InvalidSpec(problems)


def _problem(model: type[ApiModel], error: Any) -> Problem:
    place = ".".join(str(part) for part in error["loc"])
    if error["type"] == "extra_forbidden":
        return Problem(
            place, None, "unknown key", f"the valid keys are {', '.join(model.model_fields)}", "body"
        )
    if error["type"] == "missing":
        return Problem(place, None, "is required; add this field", source="body")
    message = error["msg"].replace("Input should", "should")
    return Problem(place, _shorten(error["input"]), message[:1].lower() + message[1:], source="body")


def _shorten(value: Any) -> Any:
    """Return a value for an error message: a shortened text, or None for a mapping or list.

    Mappings and lists are not shown, because they may hold credentials.
    """
    if isinstance(value, dict | list):
        return None
    return value[:SHOWN_CHARACTERS] if isinstance(value, str) else value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a valid JSON number; send null or a finite number")
