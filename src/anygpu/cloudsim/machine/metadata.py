"""The metadata service, from which a machine reads its id and its preemption notice.

The format is that of AWS (version 2), Google Cloud or Azure. A request needs a session token (AWS), the
header `Metadata-Flavor` (Google Cloud) or the header `Metadata: true` (Azure).
"""

import asyncio
import datetime as dt
import hashlib
from collections.abc import Callable, Mapping

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from anygpu.cloudsim.cloud import Cloud
from anygpu.cloudsim.instance import Instance

POLL_INTERVAL_S = 0.05
MAX_WAIT_S = 60
REBALANCE_AT = "events/recommendations/rebalance"


class SimMetadataService:
    """The metadata service of all machines.

    The address to which a request was sent tells which machine sent it.
    """

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._by_ip: dict[str, Instance] = {}

    def register(self, instance: Instance) -> None:
        self._by_ip[instance.internal_ip] = instance

    def app(self) -> ASGIApp:
        return Starlette(
            routes=[
                Route("/latest/api/token", self.token, methods=["PUT"]),
                Route("/latest/meta-data/{path:path}", self.aws),
                Route("/computeMetadata/v1/instance/{path:path}", self.google),
                Route("/metadata/scheduledevents", self.azure_events),
                Route("/metadata/instance/compute/name", self.azure_name),
                Route("/sim/power/off", self.schedule_shutdown, methods=["POST"]),
                Route("/sim/power/cancel", self.cancel_shutdown, methods=["POST"]),
            ]
        )

    async def token(self, request: Request) -> Response:
        if not request.headers.get("x-aws-ec2-metadata-token-ttl-seconds", "").isdigit():
            return PlainTextResponse("400 - Bad Request", status_code=400)
        return self._text_response(_token(self._caller(request)))

    async def aws(self, request: Request) -> Response:
        instance = self._caller(request)
        if instance.vendor.metadata_format != "aws":
            return self._text_response("", 404)
        if request.headers.get("x-aws-ec2-metadata-token") != _token(instance):
            return self._text_response("401 - Unauthorized", 401)
        facts = _aws_values(instance)
        value = facts.get(request.path_params["path"].rstrip("/"))
        return self._text_response("404 - Not Found", 404) if value is None else self._text_response(value())

    async def google(self, request: Request) -> Response:
        instance = self._caller(request)
        if request.headers.get("metadata-flavor") != "Google" or instance.vendor.metadata_format != "gcp":
            return self._text_response("Missing Metadata-Flavor:Google header.", 403)
        if request.path_params["path"] != "preempted":
            return self._text_response(instance.id)
        if request.query_params.get("wait_for_change") == "true":
            await self._wait_for_change(instance, request.query_params)
        preempted = instance.notice_at_ms is not None
        response = self._text_response("TRUE" if preempted else "FALSE")
        response.headers["etag"] = _etag(instance)
        return response

    async def azure_name(self, request: Request) -> Response:
        return self._text_response(self._caller(request).id)

    async def azure_events(self, request: Request) -> Response:
        instance = self._caller(request)
        if (
            request.headers.get("metadata", "").lower() != "true"
            or instance.vendor.metadata_format != "azure"
        ):
            return JSONResponse({"error": "Bad request: required Metadata header"}, status_code=400)
        events = [_azure_event(instance)] if instance.preempt_at_ms is not None else []
        return self._with_date(JSONResponse({"DocumentIncarnation": 1 + len(events), "Events": events}))

    async def schedule_shutdown(self, request: Request) -> Response:
        after_s = float(request.query_params.get("after_s", 0))
        instance = self._caller(request)
        self._cloud.lifecycle.schedule_shutdown(instance, after_s)
        return self._text_response(
            f"Shutdown scheduled for {_iso(instance.shutdown_at_ms or 0)}, use 'shutdown -c' to cancel.\n"
        )

    async def cancel_shutdown(self, request: Request) -> Response:
        self._cloud.lifecycle.cancel_shutdown(self._caller(request))
        return self._text_response("")

    async def _wait_for_change(self, instance: Instance, query: Mapping[str, str]) -> None:
        """Wait until the value differs from the one that the caller last received, or until the requested timeout."""
        last_etag = query.get("last_etag") or _etag(instance)
        polls = min(float(query.get("timeout_sec") or MAX_WAIT_S), MAX_WAIT_S) / POLL_INTERVAL_S
        for _ in range(round(polls)):
            if _etag(instance) != last_etag:
                return
            await asyncio.sleep(POLL_INTERVAL_S)

    def _caller(self, request: Request) -> Instance:
        return self._by_ip[request.scope["server"][0]]

    def _text_response(self, text: str, status: int = 200) -> Response:
        return self._with_date(PlainTextResponse(text, status_code=status))

    def _with_date(self, response: Response) -> Response:
        now = dt.datetime.fromtimestamp(self._cloud.clock.now_s(), dt.UTC)
        response.headers["date"] = now.strftime("%a, %d %b %Y %H:%M:%S GMT")
        return response


def _aws_values(instance: Instance) -> Mapping[str, Callable[[], str]]:
    facts: dict[str, Callable[[], str]] = {
        "instance-id": lambda: instance.id,
        "instance-type": lambda: instance.type.name,
        "public-ipv4": lambda: instance.address,
        "placement/availability-zone": lambda: instance.zone,
        "placement/region": lambda: instance.region,
        "instance-life-cycle": lambda: "spot" if instance.order.spot else "on-demand",
    }
    if instance.notice_at_ms is not None and instance.preempt_at_ms is not None:
        at, notice = _iso(instance.preempt_at_ms), _iso(instance.notice_at_ms)
        facts["spot/instance-action"] = lambda: f'{{"action": "terminate", "time": "{at}"}}'
        facts["spot/termination-time"] = lambda: at
        facts[REBALANCE_AT] = lambda: f'{{"noticeTime": "{notice}"}}'
    return facts


def _azure_event(instance: Instance) -> dict[str, object]:
    at = dt.datetime.fromtimestamp((instance.preempt_at_ms or 0) / 1000, dt.UTC)
    return {
        "EventId": f"preempt-{instance.id}",
        "EventStatus": "Scheduled",
        "EventType": "Preempt",
        "ResourceType": "VirtualMachine",
        "Resources": [instance.id],
        "NotBefore": at.strftime("%a, %d %b %Y %H:%M:%S GMT"),
        "EventSource": "Platform",
        "DurationInSeconds": -1,
    }


def _token(instance: Instance) -> str:
    return hashlib.sha256(f"metadata:{instance.id}:{instance.internal_ip}".encode()).hexdigest()[:56]


def _etag(instance: Instance) -> str:
    return hashlib.sha256(f"{instance.id}:{instance.notice_at_ms}".encode()).hexdigest()[:16]


def _iso(at_ms: int) -> str:
    return dt.datetime.fromtimestamp(at_ms // 1000, dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
