"""RunPod: pods by its REST API (rest.runpod.io/v1), prices and balance by GraphQL (api.runpod.io/graphql).

A pod is a container. Its SSH port is mapped to another one of its host, and an interruptible pod that is taken is
only stopped: it stays in the list until it is deleted.
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
    COMMUNITY,
    DATA_CENTERS,
    GPUS,
    SECURE,
    VENDOR,
    Gpu,
    gpu_json,
    type_name,
)
from anygpu.testing.cloud.dialects._runpod_pods import order_of, pod_json
from anygpu.testing.cloud.dialects._wire import Face, asked, bearer, iso, text
from anygpu.testing.cloud.instance import Instance
from anygpu.testing.cloud.refusals import Refusal, Why

DEPOSIT_MICROUSD = 1_000_000_000
DAY_S = 86_400
BUCKETS_S = {"hour": 3600, "day": DAY_S, "week": 7 * DAY_S, "month": 30 * DAY_S, "year": 365 * DAY_S}

WORDS: Mapping[Why, tuple[int, str]] = {
    Why.BAD_CREDENTIALS: (401, "Unauthorized"),
    Why.THROTTLED: (429, "Too many requests"),
    Why.NO_CAPACITY: (500, "create pod: There are no instances currently available"),
    Why.QUOTA: (500, "create pod: You have exceeded your spend limit. Contact support to increase it."),
    Why.NOT_FOUND: (404, ""),
}


def refused(refusal: Refusal) -> Response:
    status, message = WORDS.get(refusal.why, (400, ""))
    return JSONResponse({"error": message or refusal.message, "status": status}, status)


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
                route("GET", "/v1/pods", "list", self.pods),
                route("POST", "/v1/pods", "launch", self.create),
                route("GET", "/v1/pods/{id}", "get", self.get),
                route("DELETE", "/v1/pods/{id}", "end", self.delete),
                route("POST", "/v1/pods/{id}/stop", "stop", self.stop),
                route("GET", "/v1/billing/pods", "billing", self.billing),
                graphql("POST", "/graphql", "types", self.graphql),
            ]
        )

    # Pods

    async def pods(self, request: Request) -> Any:
        query = request.query_params
        found = [self._json(each) for each in self._listed()]
        wanted = ("id", "name", "desiredStatus")
        return [pod for pod in found if all(query.get(field, pod[field]) == pod[field] for field in wanted)]

    async def get(self, request: Request) -> Any:
        return self._json(self._find(request, "pod not found"))

    async def create(self, request: Request) -> Any:
        given = await asked(request)
        if self._balance_microusd() <= 0:
            raise Refusal(Why.INVALID, "create pod: Your account balance is too low to rent a pod")
        instance = self._rent(given, self._cloud.new_id("", 14))
        return JSONResponse(self._json(instance), 201)

    async def delete(self, request: Request) -> Any:
        instance = self._find(request, "pod not found to terminate")
        self._deleted.add(instance.id)
        self._cloud.end(instance)
        return Response(status_code=204)

    async def stop(self, request: Request) -> Any:
        instance = self._find(request, "pod not found")
        instance.order = dataclasses.replace(
            instance.order, on_halt="stop"
        )  # stopped by the API: no longer billed
        self._cloud.lifecycle.power_off(instance, 0)
        return self._json(instance)

    def _rent(self, given: Mapping[str, Any], id: str) -> Instance:
        """In the first place that has one: GPU types and data centers are lists of preferences."""
        refusal = Refusal(Why.INVALID, "create pod: gpuTypeIds is required")
        for gpu_id in given.get("gpuTypeIds") or ():
            for data_center in given.get("dataCenterIds") or DATA_CENTERS:
                try:
                    return self._cloud.rent(order_of(given, gpu_id, data_center, id), id=id)
                except Refusal as found:
                    refusal = found
        raise refusal

    def _json(self, instance: Instance) -> dict[str, Any]:
        return pod_json(instance, self._cloud.ssh_port)

    def _listed(self) -> list[Instance]:
        found = self._cloud.listed(VENDOR, forget_s=float("inf"))
        return [each for each in found if not (each.id in self._deleted and each.state.over)]

    def _find(self, request: Request, otherwise: str) -> Instance:
        instance = self._cloud.instances.get(request.path_params["id"])
        if instance is None or instance.vendor is not VENDOR or instance.id in self._deleted:
            raise Refusal(Why.NOT_FOUND, otherwise)
        return instance

    # Money

    async def billing(self, request: Request) -> Any:
        """One record per group and bucket; a pod is counted in the bucket in which it began."""
        query = request.query_params
        step_s = BUCKETS_S.get(query.get("bucketSize", "day"), DAY_S)
        by = "podId" if query.get("grouping") == "podId" else "gpuTypeId"
        records: dict[tuple[str, int], dict[str, Any]] = {}
        for entry in self._cloud.entries(VENDOR):
            instance = self._cloud.instances[entry.id]
            if query.get("podId", entry.id) != entry.id or not _within(query, entry.started_at_ms):
                continue
            group = entry.id if by == "podId" else instance.type.gpu_kind
            bucket_ms = entry.started_at_ms // (1000 * step_s) * 1000 * step_s
            record = records.setdefault((group, bucket_ms), _record(by, group, bucket_ms))
            record["amount"] += entry.billed_microusd / 1_000_000
            record["timeBilledMs"] += entry.billed_s * 1000
        return list(records.values())

    def _balance_microusd(self) -> int:
        return DEPOSIT_MICROUSD - sum(entry.billed_microusd for entry in self._cloud.entries(VENDOR))

    # GraphQL

    async def graphql(self, request: Request) -> Any:
        given = await asked(request)
        root = {"myself": self._myself(), "gpuTypes": self._gpu_types}
        try:
            return {"data": _graphql.answer(text(given, "query"), given.get("variables") or {}, root)}
        except _graphql.BadQuery as error:
            problem = {"message": str(error), "extensions": {"code": "GRAPHQL_VALIDATION_FAILED"}}
            return JSONResponse({"errors": [problem]}, 400)

    def _myself(self) -> dict[str, Any]:
        alive = [each for each in self._listed() if each.state.alive]
        spend = sum(each.price_microusd_per_hour for each in alive) / 1_000_000
        return {
            "id": "user_sim",
            "email": "sim@example.com",
            "clientBalance": self._balance_microusd() / 1_000_000,
            "currentSpendPerHr": spend,
            "spendLimit": 80,
            "minBalance": 0,
            "underBalance": self._balance_microusd() <= 0,
            "pods": [self._json(each) for each in self._listed()],
        }

    def _gpu_types(self, arguments: Mapping[str, Any]) -> Any:
        wanted = (arguments.get("input") or {}).get("id")
        found = [gpu for gpu in GPUS if wanted in (None, gpu.id)]
        return [
            {**gpu_json(gpu), "lowestPrice": lambda asked, gpu=gpu: self._lowest_price(gpu, asked)}
            for gpu in found
        ]

    def _lowest_price(self, gpu: Gpu, arguments: Mapping[str, Any]) -> dict[str, Any]:
        given = arguments.get("input") or {}
        count = int(given.get("gpuCount") or 1)
        secure = given.get("secureCloud")
        cloud_type = COMMUNITY if gpu.community and not secure else SECURE
        kind = VENDOR.type_named(type_name(gpu.id, count, cloud_type))
        stocked = kind and any(self._cloud.has_capacity(VENDOR, kind, dc, spot=False) for dc in DATA_CENTERS)
        price = gpu.community if cloud_type == COMMUNITY and gpu.community else gpu.secure
        return {
            "gpuTypeId": gpu.id,
            "gpuName": gpu.title,
            "minimumBidPrice": gpu.spot / 100 if stocked else None,
            "uninterruptablePrice": price / 100 if stocked else None,
            "stockStatus": "High" if stocked else None,
            "minVcpu": gpu.vcpus,
            "minMemory": gpu.memory_per_gpu_gib,
        }


def _graphql_key(request: Request) -> str:
    return bearer(request) or request.query_params.get("api_key", "")


def _within(query: Mapping[str, str], at_ms: int) -> bool:
    start, end = query.get("startTime"), query.get("endTime")
    return (not start or _ms(start) <= at_ms) and (not end or at_ms <= _ms(end))


def _ms(stamp: str) -> int:
    return round(datetime.fromisoformat(stamp).timestamp() * 1000)


def _record(by: str, group: str, bucket_ms: int) -> dict[str, Any]:
    return {by: group, "time": iso(bucket_ms), "amount": 0.0, "timeBilledMs": 0, "diskSpaceBilledGb": 0}
