"""RunPod's routes: pods through REST v2 (v1 was switched off in November 2026), the balance through GraphQL.

A pod is a container. Its SSH port is reached through another port of the host. A preempted pod is stopped,
and lists show it until it is deleted.
"""

import dataclasses
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Router
from starlette.types import ASGIApp

from anygpu.cloudsim.apis.json_api import JsonApi, bearer_token, iso_time, json_body, required_text
from anygpu.cloudsim.apis.runpod import graphql as _graphql
from anygpu.cloudsim.apis.runpod.gpus import (
    DATA_CENTERS,
    GPUS,
    SECURE,
    VENDOR,
    RunPodGpu,
    gpu_json,
    type_name,
)
from anygpu.cloudsim.apis.runpod.pods import ACTIONS, order_of, pod_json, status
from anygpu.cloudsim.cloud import Cloud
from anygpu.cloudsim.errors import CloudError, ErrorReason
from anygpu.cloudsim.instance import Instance

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
# "No capacity" has no error code: only the message distinguishes it from other rejected requests.
ERRORS: Mapping[ErrorReason, tuple[int, str]] = {
    ErrorReason.BAD_CREDENTIALS: (401, "invalid api key"),
    ErrorReason.THROTTLED: (429, "rate limit exceeded for the minute window"),
    ErrorReason.NO_CAPACITY: (
        400,
        "There are no longer any instances available with the requested specifications. "
        "Please refresh and try again.",
    ),
    ErrorReason.QUOTA: (
        400,
        "You have reached the spend limit of your account. Contact support to raise it.",
    ),
    ErrorReason.NOT_FOUND: (404, "resource not found"),
    ErrorReason.CONFLICT: (409, "action is not valid for the current status of the pod"),
    ErrorReason.INVALID: (422, "Request validation failed."),
}


def error_response(refusal: CloudError) -> Response:
    code, detail = ERRORS.get(refusal.reason, (400, refusal.message))
    more: dict[str, Any] = {"errors": [refusal.message]} if refusal.reason is ErrorReason.INVALID else {}
    return _problem(code, detail, **more)


def _problem(code: int, detail: str, **more: Any) -> Response:
    headers = {"Retry-After": str(RETRY_AFTER_S)} if code == 429 else None
    problem = {"title": TITLES[code], "status": code, "detail": detail, **more}
    return JSONResponse(problem, code, headers, media_type="application/problem+json")


def app(cloud: Cloud) -> ASGIApp:
    return SimulatedRunPod(cloud).router()


class SimulatedRunPod:
    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._deleted: set[str] = set()

    def router(self) -> Router:
        route = JsonApi(self._cloud, VENDOR, error_response).route
        graphql = JsonApi(self._cloud, VENDOR, error_response, _graphql_key).route
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

    def _stock(self, gpu: RunPodGpu, query: Mapping[str, str]) -> dict[str, Any]:
        """Return the availability of a GPU by data center.

        The availability is `NONE` if this number of GPUs or this cloud is not offered.
        """
        count, cloud = int(query.get("count", 1)), query.get("cloud", SECURE)
        machine_type = VENDOR.find_type(type_name(gpu.id, count, cloud))
        stocked = {
            place: machine_type is not None
            and self._cloud.has_capacity(VENDOR, machine_type, place, spot=False)
            for place in DATA_CENTERS
        }
        level = {True: "HIGH", False: "NONE"}
        places = [{"id": name, "name": name, "availability": level[has]} for name, has in stocked.items()]
        return {"availability": level[any(stocked.values())], "dataCenters": places}

    # Pods

    async def pods(self, _: Request) -> Any:
        return {"pods": [self._pod_json(each) for each in self._list_pods()]}

    async def get(self, request: Request) -> Any:
        return self._pod_json(self._find(request))

    async def create(self, request: Request) -> Any:
        body = await json_body(request)
        if self._balance_microusd() <= 0:
            return _problem(402, "Your account balance is too low to rent a pod")
        instance = self._launch(body, self._cloud.new_id("", 14))
        return JSONResponse(self._pod_json(instance), 201)

    async def delete(self, request: Request) -> Any:
        self._terminate(self._find(request))
        return Response(status_code=204)

    async def act(self, request: Request) -> Any:
        instance, action = self._find(request), required_text(await json_body(request), "action")
        if action not in ACTIONS[status(instance)]:
            raise CloudError(
                ErrorReason.CONFLICT,
                f"The action {action} is not valid for the current status of the pod. Read its status first.",
                subject=instance.id,
            )
        if action == "terminate":
            self._terminate(instance)
            return Response(status_code=204)
        # A pod stopped through the API is no longer billed.
        instance.order = dataclasses.replace(instance.order, on_halt="stop")
        self._cloud.lifecycle.schedule_shutdown(instance, 0)
        return self._pod_json(instance)

    def _terminate(self, instance: Instance) -> None:
        self._deleted.add(instance.id)
        self._cloud.terminate(instance)

    def _launch(self, body: Mapping[str, Any], id: str) -> Instance:
        """Launch a pod in the first data center that has capacity. Raise CloudError if none has."""
        last_error = CloudError(ErrorReason.NO_CAPACITY, "")
        for data_center in body.get("dataCenterIds") or DATA_CENTERS:
            try:
                return self._cloud.launch(order_of(body, data_center, id), id=id)
            except CloudError as error:
                last_error = error
        raise last_error

    def _pod_json(self, instance: Instance) -> dict[str, Any]:
        return pod_json(instance, self._cloud.ssh_port)

    def _list_pods(self) -> list[Instance]:
        pods = self._cloud.list_instances(VENDOR, forget_s=float("inf"))
        return [each for each in pods if not (each.id in self._deleted and each.state.is_ended)]

    def _find(self, request: Request) -> Instance:
        instance = self._cloud.instances.get(request.path_params["id"])
        if instance is None or instance.vendor is not VENDOR or instance.id in self._deleted:
            raise CloudError(
                ErrorReason.NOT_FOUND, "resource not found: no pod has this id. List the pods for their ids."
            )
        return instance

    # Money

    async def billing(self, request: Request) -> Any:
        """Return one billing record for each pod.

        The whole cost is in the period in which the pod started.
        """
        query = request.query_params
        step_ms = 1000 * BUCKETS_S.get(query.get("bucketSize", "day"), DAY_S)
        records = [
            _billing_record(
                entry.id, entry.started_at_ms // step_ms * step_ms, step_ms, entry.billed_microusd
            )
            for entry in self._cloud.billing_entries(VENDOR)
            if query.get("podId", entry.id) == entry.id and _is_within(query, entry.started_at_ms)
        ]
        total = sum(record["totalAmount"] for record in records)
        metadata = {"recordCount": len(records), "totals": {"totalAmount": total}}
        return {"records": records, "metadata": metadata}

    async def graphql(self, request: Request) -> Any:
        body = await json_body(request)
        try:
            root = {"myself": self._myself()}
            return {"data": _graphql.execute(required_text(body, "query"), body.get("variables") or {}, root)}
        except _graphql.GraphqlError as error:
            problem = {"message": str(error), "extensions": {"code": "GRAPHQL_VALIDATION_FAILED"}}
            return JSONResponse({"errors": [problem]}, 400)

    def _myself(self) -> dict[str, Any]:
        pods = [self._pod_json(each) for each in self._list_pods()]
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
        return DEPOSIT_MICROUSD - sum(entry.billed_microusd for entry in self._cloud.billing_entries(VENDOR))


def _graphql_key(request: Request) -> str:
    return bearer_token(request) or request.query_params.get("api_key", "")


def _billing_record(pod_id: str, bucket_ms: int, step_ms: int, microusd: int) -> dict[str, Any]:
    dollars = microusd / 1_000_000
    return {
        "startTime": iso_time(bucket_ms, "seconds"),
        "endTime": iso_time(bucket_ms + step_ms, "seconds"),
        "podId": pod_id,
        "totalAmount": dollars,
        "gpuAmount": dollars,
        "cpuAmount": 0,
        "diskAmount": 0,
    }


def _is_within(query: Mapping[str, str], at_ms: int) -> bool:
    start, end = query.get("startTime"), query.get("endTime")
    return (not start or _ms(start) <= at_ms) and (not end or at_ms < _ms(end))


def _ms(stamp: str) -> int:
    return round(datetime.fromisoformat(stamp).timestamp() * 1000)
