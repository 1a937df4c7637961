"""An HTTP client for providers with a REST API: API key, timeouts, retries, translated errors.

A read is retried. A write is retried only when it was rate limited, because a write that got no answer may
have been executed. Such a write raises `OutcomeUnknown`. That is not a `LaunchError`, so no caller concludes
that the provider refused the request. The key is sent only to the configured address and appears in no
message.
"""

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
from pydantic import SecretStr

from anygpu.backends.contract import NativeRequest
from anygpu.backends.vm.provider import CredentialsRefused, OutcomeUnknown, ResourceNotFound
from anygpu.errors import AnygpuError, BackendUnavailable, LaunchRefused, NoCapacity, NoQuota, RateLimited

NAME_PREFIX = "anygpu-"  # prefix of the names of all our resources
TRIES = 3
BACKOFF_S = 0.5
MAX_BACKOFF_S = 10.0
QUOTA = ("quota", "reached its limit", "limit reached", "limit exceeded", "spend limit")
GPUS = re.compile(r"(?:(?P<count>\d+)x )?(?P<kind>.+?) \((?P<memory_gib>\d+) GB")


RETRIED_READS = (BackendUnavailable, OutcomeUnknown, RateLimited)


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorInfo:
    """A provider's name, address, the environment variable of its API key, and its error texts."""

    name: str
    base_url: str
    variable: str  # environment variable of the API key
    no_capacity: tuple[str, ...]  # parts of its out-of-capacity messages, in lower case


class VendorClient:
    """Sends requests to one provider.

    Its methods return the JSON of the answer, or None if the answer has no body.
    """

    def __init__(
        self,
        vendor: VendorInfo,
        *,
        key: SecretStr | None = None,
        endpoint: str = "",
        transport: httpx.AsyncBaseTransport | None = None,
        timeout_s: float = 30,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._vendor, self._sleep = vendor, sleep
        # An empty key does not fall back to the environment: it may be a mistake or an attack.
        self._key = os.environ.get(vendor.variable, "") if key is None else key.get_secret_value()
        # Proxies of the environment apply to the provider's own address, not to a configured endpoint.
        self._client = httpx.AsyncClient(
            base_url=endpoint or vendor.base_url,
            timeout=timeout_s,
            transport=transport,
            trust_env=not endpoint,
        )

    async def get(self, path: str, **params: Any) -> Any:
        try:
            return await self._retry(RETRIED_READS, lambda: self._send("GET", path, params=params))
        except OutcomeUnknown as error:  # a read changes nothing
            raise BackendUnavailable(str(error)) from error

    async def post(self, path: str, body: Mapping[str, Any], *, patient: bool = True) -> Any:
        """Send a POST request.

        If `patient`, retry when the provider limits the rate of requests, because then it did not execute the
        request.
        """
        when = (RateLimited,) if patient else ()
        return await self._retry(when, lambda: self._send("POST", path, body=body))

    def show_post(self, path: str, body: Mapping[str, Any]) -> NativeRequest:
        """Return what `post` would send, without the key."""
        return NativeRequest.of_json(f"POST {str(self._client.base_url).rstrip('/')}{path}", body)

    async def delete(self, path: str, **params: Any) -> None:
        """Delete a resource. Succeeds if the resource does not exist."""
        with suppress(ResourceNotFound):
            await self._retry((RateLimited,), lambda: self._send("DELETE", path, params=params))

    async def close(self) -> None:
        await self._client.aclose()

    async def _retry(self, when: tuple[type[Exception], ...], ask: Callable[[], Awaitable[Any]]) -> Any:
        for tried in range(1, TRIES):
            try:
                return await ask()
            except when as error:
                await self._sleep(_backoff_s(error, tried))
        return await ask()

    async def _send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> Any:
        what = f"{method} {path}"
        try:
            answer = await self._client.request(
                method, path, params=params or None, json=body, headers=self._headers()
            )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise BackendUnavailable(
                f"{self._vendor.name} cannot be reached: {error}. Check the network of the server, and the "
                "backend's option `endpoint`."
            ) from error
        except httpx.TransportError as error:
            raise OutcomeUnknown(
                f"{self._vendor.name} did not answer {what}, so it is unknown whether it executed the request: "
                f"{error!r}"
            ) from error
        return self._parse_response(answer, what)

    def _headers(self) -> dict[str, str]:
        if not self._key:
            raise LaunchRefused(
                f"{self._vendor.name} needs an API key, but none is configured",
                hint="Set the credential `api_key` of the backend, or the environment variable "
                f"{self._vendor.variable} of the server.",
            )
        return {"Authorization": f"Bearer {self._key}"}

    def _parse_response(self, answer: httpx.Response, what: str) -> Any:
        if answer.is_success:
            return answer.json() if answer.content else None
        code, detail = _error_fields(answer)
        detail = detail.replace(self._key, "(the key)")
        raise self._error(
            answer,
            f"{self._vendor.name} answered the request {what} with HTTP status {answer.status_code}",
            code,
            detail,
        )

    def _error(self, answer: httpx.Response, summary: str, code: str, detail: str) -> Exception:
        full = f"{summary}: {detail}"
        match answer.status_code:
            case status if any(sign in f"{code} {detail}".lower() for sign in self._vendor.no_capacity):
                return NoCapacity(
                    f"{self._vendor.name} has no capacity for this machine now: {detail}", status=status
                )
            case status if status != 429 and any(sign in f"{code} {detail}".lower() for sign in QUOTA):
                hint = f"Ask {self._vendor.name} for a higher quota, or end some machines."
                return NoQuota(full, hint=hint, vendor_code=code)
            case 401 | 403:
                hint = (
                    f"Check the backend's `api_key` (or the variable {self._vendor.variable}), and what that key may "
                    "do."
                )
                return CredentialsRefused(full, hint=hint, vendor_code=code)
            case 404:
                return ResourceNotFound(
                    full,
                    hint="Check the region and the machine type in the options of the backend.",
                    vendor_code=code,
                )
            case 429:
                return RateLimited(full, retry_after_s=_seconds(answer.headers.get("Retry-After", "")))
            case status if status >= 500:
                return OutcomeUnknown(full)
            case _:
                hint = "Correct the region, the machine type or the options of the backend."
                return LaunchRefused(full, hint=hint, vendor_code=code)


def _backoff_s(error: Exception, tried: int) -> float:
    retry_after_s = error.details.get("retry_after_s", 0) if isinstance(error, AnygpuError) else 0
    return min(max(retry_after_s, BACKOFF_S * tried), MAX_BACKOFF_S)


def _seconds(text: str) -> float:
    return float(text) if text.replace(".", "", 1).isdigit() else 0


def _error_fields(answer: httpx.Response) -> tuple[str, str]:
    """Return (error code, message) from an answer in one of the common error formats."""
    try:
        body = answer.json()
    except ValueError:
        return "", answer.text[:300] or answer.reason_phrase
    inner = body.get("error", body) if isinstance(body, dict) else body
    if not isinstance(inner, dict):
        return "", str(inner)
    texts = [inner.get("message") or inner.get("detail") or inner.get("title") or str(inner)]
    more = [inner["suggestion"]] if inner.get("suggestion") else [str(e) for e in inner.get("errors", ())]
    return str(inner.get("code", "")), " ".join(texts + more)


def parse_gpus(text: str) -> tuple[int, str, float]:
    """Parse '8x A100 (80 GB SXM4)' into (8, 'A100', 80). The count is 0 if the text names no GPU."""
    match = GPUS.match(text)
    if not match:
        return 0, "", 0
    return int(match["count"] or 1), match["kind"], float(match["memory_gib"])


def unix_ms(text: str | None) -> int | None:
    """Parse a vendor's ISO time; None if there is none. A time without a zone is UTC."""
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)
