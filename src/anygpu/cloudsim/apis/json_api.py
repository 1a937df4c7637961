"""Helpers for the vendors' JSON APIs: authentication, request bodies, error responses, timestamps."""

import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from anygpu.cloudsim.cloud import Cloud
from anygpu.cloudsim.errors import CloudError, ErrorReason
from anygpu.cloudsim.vendor import SimVendor

Handler = Callable[[Request], Awaitable[Any]]


def bearer_token(request: Request) -> str:
    """Return the token of `Authorization: Bearer …`; an empty string if there is none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def bearer_or_basic_key(request: Request) -> str:
    """Return the API key, sent as a bearer token or as the user name of basic authentication."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return bearer_token(request)
    try:
        return base64.b64decode(value).decode().partition(":")[0]
    except (binascii.Error, UnicodeDecodeError):
        return ""


@dataclass(frozen=True, slots=True)
class JsonApi:
    """Creates the routes of one vendor's JSON API.

    `error_response` returns the vendor's response for a `CloudError`.
    """

    cloud: Cloud
    vendor: SimVendor
    error_response: Callable[[CloudError], Response]
    credential: Callable[[Request], str] = bearer_token

    def route(self, verb: str, path: str, operation: str, handler: Handler) -> Route:
        """Return a route whose handler returns data to be sent as JSON.

        `operation` is the name of the route in injected faults, for example `launch`.
        """

        async def answer(request: Request) -> Response:
            names = (operation, f"{verb} {path}")
            try:
                self.cloud.authorize(self.vendor, *names, credential=self.credential(request))
                answer_data = await handler(request)
            except CloudError as refusal:
                return self.error_response(refusal)
            return answer_data if isinstance(answer_data, Response) else JSONResponse(answer_data)

        return Route(path, answer, methods=[verb])


async def json_body(request: Request) -> dict[str, Any]:
    """Return the JSON object in the request body."""
    try:
        body = json.loads(await request.body() or b"{}")
    except ValueError as error:
        raise CloudError(
            ErrorReason.INVALID, f"The body of the request is not valid JSON: {error}. Send a JSON object."
        ) from error
    if not isinstance(body, dict):
        raise CloudError(ErrorReason.INVALID, "The body of the request is not a JSON object. Send one.")
    return body


def required_text(body: Mapping[str, Any], name: str) -> str:
    """Return the text field `name` of a request body. Raise CloudError if it is missing."""
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise CloudError(ErrorReason.INVALID, f"{name} is required", subject=name)
    return value


def iso_time(at_ms: int | None, timespec: str = "milliseconds", zone: str = "Z") -> str | None:
    """Format a time as ISO 8601; return None for None."""
    if at_ms is None:
        return None
    return datetime.fromtimestamp(at_ms / 1000, UTC).replace(tzinfo=None).isoformat(timespec=timespec) + zone


def as_uuid(digits: str) -> str:
    """Format 32 hexadecimal digits as a UUID."""
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))


def new_key_pair() -> tuple[str, str]:
    """Generate an SSH key pair, for vendors whose API does so.

    Return the private key and the public key line.
    """
    import asyncssh  # slow to import, and rarely needed

    key = asyncssh.generate_private_key("ssh-ed25519")
    return key.export_private_key().decode(), key.export_public_key().decode().strip()
