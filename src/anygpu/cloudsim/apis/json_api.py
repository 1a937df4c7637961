"""Shared by the JSON APIs: authentication, request bodies, error responses, timestamps."""

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
    """The token of `Authorization: Bearer …`; empty when there is none."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""


def bearer_or_basic_key(request: Request) -> str:
    """A key may also be the user of basic authentication, with an empty password."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return bearer_token(request)
    try:
        return base64.b64decode(value).decode().partition(":")[0]
    except (binascii.Error, UnicodeDecodeError):
        return ""


@dataclass(frozen=True, slots=True)
class JsonApi:
    """One vendor's HTTP face. `refused` finds the vendor's words and status code for a refusal."""

    cloud: Cloud
    vendor: SimVendor
    error_response: Callable[[CloudError], Response]
    credential: Callable[[Request], str] = bearer_token

    def route(self, verb: str, path: str, operation: str, handler: Handler) -> Route:
        """`operation` is the neutral name faults are asked for by; the handler answers with plain data."""

        async def answer(request: Request) -> Response:
            names = (operation, f"{verb} {path}")
            try:
                self.cloud.authorize(self.vendor, *names, credential=self.credential(request))
                found = await handler(request)
            except CloudError as refusal:
                return self.error_response(refusal)
            return found if isinstance(found, Response) else JSONResponse(found)

        return Route(path, answer, methods=[verb])


async def json_body(request: Request) -> dict[str, Any]:
    """The JSON object in the body."""
    try:
        found = json.loads(await request.body() or b"{}")
    except ValueError as error:
        raise CloudError(ErrorReason.INVALID, f"The body is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise CloudError(ErrorReason.INVALID, "The body must be a JSON object.")
    return found


def required_text(given: Mapping[str, Any], name: str) -> str:
    """A field that must be there and be a text."""
    value = given.get(name)
    if not isinstance(value, str) or not value:
        raise CloudError(ErrorReason.INVALID, f"{name} is required", subject=name)
    return value


def iso_time(at_ms: int | None, timespec: str = "milliseconds", zone: str = "Z") -> str | None:
    """A time as a vendor writes it; None stays None."""
    if at_ms is None:
        return None
    return datetime.fromtimestamp(at_ms / 1000, UTC).replace(tzinfo=None).isoformat(timespec=timespec) + zone


def as_uuid(digits: str) -> str:
    """32 hexadecimal digits in the usual groups."""
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32]))


def new_key_pair() -> tuple[str, str]:
    """A new private key and its public line, for vendors that make keys themselves."""
    import asyncssh  # slow to import, and few callers let the vendor make their key

    key = asyncssh.generate_private_key("ssh-ed25519")
    return key.export_private_key().decode(), key.export_public_key().decode().strip()
