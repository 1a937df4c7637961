"""A client of Ray's HTTP API: jobs, packages, and the state of the cluster.

The errors of the API are translated. A write that got no answer raises `OutcomeUnknown`, because Ray may have executed
it. No credential appears in a message.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from anygpu.backends.ray.options import RayOptions
from anygpu.backends.vm.provider import CredentialsRefused, OutcomeUnknown
from anygpu.errors import BackendUnavailable, LaunchRefused, RateLimited

Json = dict[str, Any]
READ_TRIES = 2
TEXT_LIMIT = 400
EXISTS = "already exists"
NODE_LIMIT = 10_000


class RayClient:
    """Sends requests to the dashboard of one Ray cluster."""

    def __init__(
        self, options: RayOptions, *, transport: httpx.AsyncBaseTransport | None = None, timeout_s: float = 30
    ) -> None:
        self._address = options.address
        self._secrets = [value.rpartition(" ")[2] for value in options.http_headers().values() if value]
        verify: Any = options.verify_tls
        if verify and options.ca_file:
            verify = _trust(options.ca_file)
        self._client = httpx.AsyncClient(
            base_url=options.address,
            headers=options.http_headers(),
            timeout=timeout_s,
            transport=transport,
            verify=verify,
            trust_env=False,
        )

    async def version(self) -> Json:
        """Return the versions of Ray and of its Jobs API, and the name of the cluster's session."""
        return _object(await self._read("/api/version"))

    async def nodes(self) -> list[Json]:
        """Return the nodes of the cluster as the State API lists them, alive or dead."""
        answer = await self._read("/api/v0/nodes", detail=1, limit=NODE_LIMIT)
        found = _object(_object(_object(answer).get("data")).get("result")).get("result")
        return [node for node in found if isinstance(node, dict)] if isinstance(found, list) else []

    async def usage(self) -> Json:
        """Return {node: {resource: [used, total]}}. The report names nodes by their ids or their addresses.

        It is empty while the cluster has none yet, and always with the second version of Ray's autoscaler.
        """
        answer = _object(_object(await self._read("/api/cluster_status")).get("data"))
        report = _object(_object(answer.get("clusterStatus")).get("loadMetricsReport"))
        return _object(report.get("usageByNode"))

    async def job(self, name: str) -> Json | None:
        """Return the job with this submission id, or None if Ray does not know it."""
        found = await self._read(f"/api/jobs/{quote(name, safe='')}", missing_ok=True)
        return None if found is None else _object(found)

    async def jobs(self) -> list[Json]:
        found = await self._read("/api/jobs/")
        return [job for job in found if isinstance(job, dict)] if isinstance(found, list) else []

    async def logs(self, name: str) -> str:
        answer = await self._read(f"/api/jobs/{quote(name, safe='')}/logs", missing_ok=True)
        return str(_object(answer).get("logs") or "")

    async def submit(self, body: Mapping[str, Any]) -> None:
        """Submit a job. Does nothing if a job with this submission id exists."""
        answer = await self._send("POST", "/api/jobs/", json=body)
        if not answer.is_success and EXISTS not in answer.text:
            raise self._error(answer, "submit the job", is_write=True)

    async def stop(self, name: str) -> None:
        """Ask Ray to stop the job. Does nothing if Ray does not know the job."""
        await self._write("POST", f"/api/jobs/{quote(name, safe='')}/stop", "stop the job")

    async def delete(self, name: str) -> None:
        """Delete the record of an ended job. Does nothing if Ray does not know the job."""
        await self._write("DELETE", f"/api/jobs/{quote(name, safe='')}", "delete the job")

    async def has_package(self, package: str) -> bool:
        """Return whether the cluster has the package. If so, Ray keeps it for some minutes."""
        return await self._read(f"/api/packages/gcs/{package}", missing_ok=True, as_json=False) is not None

    async def upload_package(self, package: str, data: bytes) -> None:
        await self._write("PUT", f"/api/packages/gcs/{package}", "upload the agent", content=data)

    async def close(self) -> None:
        await self._client.aclose()

    async def _read(self, path: str, *, missing_ok: bool = False, as_json: bool = True, **params: Any) -> Any:
        answer = await self._get(path, params)
        if answer.status_code == 404 and missing_ok:
            return None
        if not answer.is_success:
            raise self._error(answer, f"answer {path}", is_write=False)
        if not as_json:
            return answer.text
        try:
            return answer.json()
        except ValueError as error:
            raise BackendUnavailable(
                f"{self._address}{path} did not answer with JSON, so it is not the dashboard of a Ray cluster, or a "
                "proxy answered instead. Check the backend's option `address`."
            ) from error

    async def _get(self, path: str, params: Mapping[str, Any]) -> httpx.Response:
        for _ in range(READ_TRIES - 1):
            try:
                return await self._send("GET", path, params=params)
            except OutcomeUnknown:
                continue  # a kept connection may have been closed; a read changes nothing
        try:
            return await self._send("GET", path, params=params)
        except OutcomeUnknown as error:
            raise BackendUnavailable(str(error)) from error

    async def _write(self, method: str, path: str, what: str, **fields: Any) -> None:
        answer = await self._send(method, path, **fields)
        if not answer.is_success and answer.status_code != 404:
            raise self._error(answer, what, is_write=True)

    async def _send(self, method: str, path: str, **fields: Any) -> httpx.Response:
        try:
            return await self._client.request(method, path, **fields)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise BackendUnavailable(
                f"The Ray cluster at {self._address} cannot be reached: {error}. Check that its head node runs, and "
                "the backend's option `address`."
            ) from error
        except httpx.LocalProtocolError:
            # The text of this error has the value of the header, which is a credential. Nothing was sent.
            raise CredentialsRefused(
                "A header of the requests to Ray has characters that HTTP does not allow, such as a line break",
                hint="Store the credential `token` or `headers` of the backend again.",
            ) from None
        except httpx.TransportError as error:
            raise OutcomeUnknown(
                f"The Ray cluster at {self._address} did not answer {method} {path}: {error!r}"
            ) from error

    def _error(self, answer: httpx.Response, what: str, *, is_write: bool) -> Exception:
        text = (
            f"Ray at {self._address} did not {what}: HTTP status {answer.status_code}, {self._reason(answer)}"
        )
        match answer.status_code:
            case 401 | 403:
                return CredentialsRefused(
                    text,
                    hint="Set the credential `token` (or `headers`) of the backend to one that the cluster accepts.",
                )
            case 404:
                return LaunchRefused(
                    text, hint="Check the backend's option `address`: it must be the URL of a Ray dashboard."
                )
            case 429:
                return RateLimited(text)
            case status if status >= 500:
                return OutcomeUnknown(text) if is_write else BackendUnavailable(text)
            case _:
                return LaunchRefused(
                    text, hint="Check the options of the backend and the resources of the job."
                )

    def _reason(self, answer: httpx.Response) -> str:
        """Return the last line of the answer, because Ray answers with a traceback."""
        lines = [line.strip() for line in answer.text.splitlines() if line.strip(" .")]
        text = (lines[-1] if lines else answer.reason_phrase)[:TEXT_LIMIT]
        for secret in self._secrets:
            text = text.replace(secret, "(a credential)")
        return text


def _trust(ca_file: str) -> Any:
    """Return a TLS context that trusts the certificates in a file of the server."""
    import ssl

    try:
        return ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise LaunchRefused(
            f"The file {ca_file} cannot be read as certificates: {error}",
            hint="Correct the backend's option `ca_file`.",
        ) from error


def _object(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
