"""RunPod: pods by REST v2 (docs.runpod.io/api-reference-v2; v1 ended in 2026-11), the balance by GraphQL.

A pod is a container. Its SSH port is mapped to another one of its host, and a pod that is taken back is only stopped:
it stays in the list until it is deleted.
"""

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Router
from starlette.types import ASGIApp

from anygpu.testing.cloud.cloud import Cloud
from anygpu.testing.cloud.dialects import _graphql
from anygpu.testing.cloud.dialects._runpod_goods import (
    DATA_CENTERS,
    GPUS,
    SECURE,
    VENDOR,
    Gpu,
    gpu_json,
    type_name,
)
from anygpu.testing.cloud.dialects._runpod_pods import ACTIONS, order_of, pod_json, status
from anygpu.testing.cloud.dialects._wire import Face, asked, bearer, iso, text
from anygpu.testing.cloud.instance import Instance
from anygpu.testing.cloud.refusals import Refusal, Why

DEPOSIT_MICROUSD = 1_000_000_000
RETRY_AFTER_S = 12
DAY_S = 86_400
BUCKETS_S = {"hour": 3600, "day": DAY_S, "week": 7 * DAY_S, "month": 30 * DAY_S, "year": 365 * DAY_S}
TITLES = {
    400: "Bad Request",
    401: "Unauthorized",
    402: "Payment Required",
    404: "Not Found",
    409: "Conflict",
    422: "Unprocessable Entity",
    429: "Too Many Requests",
}
# No capacity has no code of its own: only its words tell it from another request that could not be placed.
WORDS: Mapping[Why, tuple[int, str]] = {
    Why.BAD_CREDENTIALS: (401, "invalid api key"),
    Why.THROTTLED: (429, "rate limit exceeded for the minute window"),
    Why.NO_CAPACITY: (
        400,
        "There are no longer any instances available with the requested specifications. "
        "Please refresh and try again.",
    ),
    Why.QUOTA: (400, "You have reached the spend limit of your account. Contact support to raise it."),
    Why.NOT_FOUND: (404, "resource not found"),
    Why.CONFLICT: (409, "action is not valid for the current status of the pod"),
    Why.INVALID: (422, "Request validation failed."),
}


def refused(refusal: Refusal) -> Response:
    code, detail = WORDS.get(refusal.why, (400, refusal.message))
    more: dict[str, Any] = {"errors": [refusal.message]} if refusal.why is Why.INVALID else {}
    return _problem(code, detail, **more)


def _problem(code: int, detail: str, **more: Any) -> Response:
    headers = {"Retry-After": str(RETRY_AFTER_S)} if code == 429 else None
    problem = {"title": TITLES[code], "status": code, "detail": detail, **more}
    return JSONResponse(problem, code, headers, media_type="application/problem+json")


def app(cloud: Cloud) -> ASGIApp:
    return RunPod(cloud).router()


class RunPod:
    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._deleted: set[str] = set()

    def router(self) -> Router:
        route = Face(self._cloud, VENDOR, refused).route
        graphql = Face(self._cloud, VENDOR, refused, _graphql_key).route
        return Router(
            [
                route("GET", "/v2/catalog/gpus", "types", self.gpus),
                route("GET", "/v2/pods", "list", self.pods),
                route("POST", "/v2/pods", "launch", self.create),
                route("GET", "/v2/pods/{id}", "get", self.get),
                route("DELETE", "/v2/pods/{id}", "end", self.delete),
                route("POST", "/v2/pods/{id}/action", "action", self.act),
                route("GET", "/v2/billing/pods", "billing", self.billing),
                graphql("POST", "/graphql", "balance", self.graphql),
            ]
        )

    async def gpus(self, request: Request) -> Any:
        query = request.query_params
        wants_stock = query.get("include") == "AVAILABILITY"
        if wants_stock != ("product" in query):
            return _problem(400, "product is required with include=AVAILABILITY, and valid only with it")
        return {"gpus": [gpu_json(gpu) | (self._stock(gpu, query) if wants_stock else {}) for gpu in GPUS]}

    def _stock(self, gpu: Gpu, query: Mapping[str, str]) -> dict[str, Any]:
        """A type too large for one pod, or not in this cloud, is nowhere."""
        count, cloud = int(query.get("count", 1)), query.get("cloud", SECURE)
        kind = VENDOR.type_named(type_name(gpu.id, count, cloud))
        stocked = {
            place: kind is not None and self._cloud.has_capacity(VENDOR, kind, place, spot=False)
            for place in DATA_CENTERS
        }
        level = {True: "HIGH", False: "NONE"}
        places = [{"id": name, "name": name, "availability": level[has]} for name, has in stocked.items()]
        return {"availability": level[any(stocked.values())], "dataCenters": places}

    # Pods

    async def pods(self, _: Request) -> Any:
        return {"pods": [self._json(each) for each in self._listed()]}

    async def get(self, request: Request) -> Any:
        return self._json(self._find(request))

    async def create(self, request: Request) -> Any:
        given = await asked(request)
        if self._balance_microusd() <= 0:
            return _problem(402, "Your account balance is too low to rent a pod")
        instance = self._rent(given, self._cloud.new_id("", 14))
        return JSONResponse(self._json(instance), 201)

    async def delete(self, request: Request) -> Any:
        self._terminate(self._find(request))
        return Response(status_code=204)

    async def act(self, request: Request) -> Any:
        instance, action = self._find(request), text(await asked(request), "action")
        if action not in ACTIONS[status(instance)]:
            raise Refusal(Why.CONFLICT, f"{action} is not valid now", what=instance.id)
        if action == "terminate":
            self._terminate(instance)
            return Response(status_code=204)
        # Stopped by the API, it is no longer billed.
        instance.order = dataclasses.replace(instance.order, on_halt="stop")
        self._cloud.lifecycle.power_off(instance, 0)
        return self._json(instance)

    def _terminate(self, instance: Instance) -> None:
        self._deleted.add(instance.id)
        self._cloud.end(instance)

    def _rent(self, given: Mapping[str, Any], id: str) -> Instance:
        """In the first data center that has one."""
        refusal = Refusal(Why.NO_CAPACITY, "")
        for data_center in given.get("dataCenterIds") or DATA_CENTERS:
            try:
                return self._cloud.rent(order_of(given, data_center, id), id=id)
            except Refusal as found:
                refusal = found
        raise refusal

    def _json(self, instance: Instance) -> dict[str, Any]:
        return pod_json(instance, self._cloud.ssh_port)

    def _listed(self) -> list[Instance]:
        found = self._cloud.listed(VENDOR, forget_s=float("inf"))
        return [each for each in found if not (each.id in self._deleted and each.state.over)]

    def _find(self, request: Request) -> Instance:
        instance = self._cloud.instances.get(request.path_params["id"])
        if instance is None or instance.vendor is not VENDOR or instance.id in self._deleted:
            raise Refusal(Why.NOT_FOUND, "resource not found")
        return instance

    # Money

    async def billing(self, request: Request) -> Any:
        """One record a pod, in the bucket in which it began."""
        query = request.query_params
        step_ms = 1000 * BUCKETS_S.get(query.get("bucketSize", "day"), DAY_S)
        records = [
            _record(entry.id, entry.started_at_ms // step_ms * step_ms, step_ms, entry.billed_microusd)
            for entry in self._cloud.entries(VENDOR)
            if query.get("podId", entry.id) == entry.id and _within(query, entry.started_at_ms)
        ]
        total = sum(record["totalAmount"] for record in records)
        metadata = {"recordCount": len(records), "totals": {"totalAmount": total}}
        return {"records": records, "metadata": metadata}

    async def graphql(self, request: Request) -> Any:
        given = await asked(request)
        try:
            root = {"myself": self._myself()}
            return {"data": _graphql.answer(text(given, "query"), given.get("variables") or {}, root)}
        except _graphql.BadQuery as error:
            problem = {"message": str(error), "extensions": {"code": "GRAPHQL_VALIDATION_FAILED"}}
            return JSONResponse({"errors": [problem]}, 400)

    def _myself(self) -> dict[str, Any]:
        pods = [self._json(each) for each in self._listed()]
        return {
            "id": "user_sim",
            "email": "sim@example.com",
            "clientBalance": self._balance_microusd() / 1_000_000,
            "currentSpendPerHr": sum(pod["cost"] for pod in pods),
            "underBalance": self._balance_microusd() <= 0,
            "minBalance": 0,
            "pods": [{"id": pod["id"], "name": pod["name"], "costPerHr": pod["cost"]} for pod in pods],
        }

    def _balance_microusd(self) -> int:
        return DEPOSIT_MICROUSD - sum(entry.billed_microusd for entry in self._cloud.entries(VENDOR))


def _graphql_key(request: Request) -> str:
    return bearer(request) or request.query_params.get("api_key", "")


def _record(pod_id: str, bucket_ms: int, step_ms: int, microusd: int) -> dict[str, Any]:
    dollars = microusd / 1_000_000
    return {
        "startTime": iso(bucket_ms, "seconds"),
        "endTime": iso(bucket_ms + step_ms, "seconds"),
        "podId": pod_id,
        "totalAmount": dollars,
        "gpuAmount": dollars,
        "cpuAmount": 0,
        "diskAmount": 0,
    }


def _within(query: Mapping[str, str], at_ms: int) -> bool:
    start, end = query.get("startTime"), query.get("endTime")
    return (not start or _ms(start) <= at_ms) and (not end or at_ms < _ms(end))


def _ms(stamp: str) -> int:
    return round(datetime.fromisoformat(stamp).timestamp() * 1000)
