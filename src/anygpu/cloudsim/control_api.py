"""The simulator's own HTTP API under `/sim/v1`: read its state, inject faults, advance its clock."""

from dataclasses import asdict
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from anygpu.cloudsim.cloud import Cloud
from anygpu.cloudsim.faults import FaultKind, InjectedFault
from anygpu.cloudsim.instance import Instance


def app(cloud: Cloud) -> ASGIApp:
    api = _ControlApi(cloud)
    routes = [
        Route("/v1/state", api.state),
        Route("/v1/instances", api.instances),
        Route("/v1/books", api.books),
        Route("/v1/faults", api.faults),
        Route("/v1/faults", api.add_fault, methods=["POST"]),
        Route("/v1/faults", api.clear_faults, methods=["DELETE"]),
        Route("/v1/faults/{id}", api.clear_faults, methods=["DELETE"]),
        Route("/v1/advance", api.advance, methods=["POST"]),
        Route("/v1/meter", api.set_meter, methods=["POST"]),
        Route("/v1/{what}/{id}", api.act, methods=["POST"]),
    ]
    return Starlette(routes=routes)


class _ControlApi:
    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._actions = {"preempt", "cut", "refuse_ssh", "fill_disk", "end"}

    async def state(self, request: Request) -> Response:
        alive = [each for each in self._cloud.instances.values() if not each.state.is_ended]
        billed = sum(entry.billed_microusd for entry in self._cloud.billing_entries())
        return JSONResponse(
            {
                "now_ms": self._cloud.clock.now_ms(),
                "ssh_port": self._cloud.ssh_port,
                "instances": len(self._cloud.instances),
                "alive": len(alive),
                "billed_microusd": billed,
                "meter_factor": self._cloud.billing.meter_factor,
                "faults": len(self._cloud.faults.active()),
            }
        )

    async def instances(self, request: Request) -> Response:
        return JSONResponse([instance_json(each) for each in self._cloud.instances.values()])

    async def books(self, request: Request) -> Response:
        return JSONResponse([entry.json() for entry in self._cloud.billing_entries()])

    async def faults(self, request: Request) -> Response:
        return JSONResponse([asdict(fault) for fault in self._cloud.faults.active()])

    async def add_fault(self, request: Request) -> Response:
        fields = await _json_body(request)
        try:
            fault = InjectedFault(**{**fields, "kind": FaultKind(fields.get("kind", ""))})
        except (TypeError, ValueError) as error:
            kinds = ", ".join(FaultKind)
            raise HTTPException(
                422, f"The fault is not valid: {error}. The kinds of fault are {kinds}."
            ) from error
        return JSONResponse({"id": self._cloud.faults.add(fault)}, status_code=201)

    async def clear_faults(self, request: Request) -> Response:
        self._cloud.faults.clear(request.path_params.get("id", ""))
        return Response(status_code=204)

    async def advance(self, request: Request) -> Response:
        self._cloud.clock.advance(float((await _json_body(request)).get("seconds", 0)))
        return JSONResponse({"now_ms": self._cloud.clock.now_ms()})

    async def set_meter(self, request: Request) -> Response:
        self._cloud.billing.meter_factor = float((await _json_body(request)).get("factor", 1))
        return JSONResponse({"meter_factor": self._cloud.billing.meter_factor})

    async def act(self, request: Request) -> Response:
        what, instance = request.path_params["what"], self._cloud.instances.get(request.path_params["id"])
        if instance is None or what not in self._actions:
            raise HTTPException(
                404,
                "There is no such machine or action. Use the id of a running machine, and one of the actions "
                f"{', '.join(sorted(self._actions))}.",
            )
        await self._apply(what, instance, await _json_body(request))
        return JSONResponse(instance_json(instance))

    async def _apply(self, what: str, instance: Instance, body: dict[str, Any]) -> None:
        seconds = None if body.get("seconds") is None else float(body["seconds"])
        if what == "preempt":
            self._cloud.preempt(instance.id, body.get("notice_s"))
        elif what == "cut":
            self._cloud.lifecycle.disconnect(instance, seconds)
        elif what == "refuse_ssh":
            await self._cloud.lifecycle.refuse_ssh(instance, seconds)
        elif what == "fill_disk":
            self._cloud.lifecycle.fill_disk(instance, body.get("bytes", 0))
        else:
            self._cloud.terminate(instance)


def instance_json(instance: Instance) -> dict[str, Any]:
    return {
        "id": instance.id,
        "vendor": instance.vendor.name,
        "name": instance.name,
        "type": instance.type.name,
        "region": instance.region,
        "zone": instance.zone,
        "spot": instance.order.spot,
        "state": instance.state,
        "address": instance.address,
        "inside_ip": instance.internal_ip,
        "cause": instance.cause,
        "created_at_ms": instance.created_at_ms,
        "booted_at_ms": instance.booted_at_ms,
        "notice_at_ms": instance.notice_at_ms,
        "taken_at_ms": instance.preempt_at_ms,
        "off_at_ms": instance.shutdown_at_ms,
        "stopped_at_ms": instance.stopped_at_ms,
        "ended_at_ms": instance.ended_at_ms,
        "tags": dict(instance.tags),
    }


async def _json_body(request: Request) -> dict[str, Any]:
    if not await request.body():
        return {}
    body = await request.json()
    if not isinstance(body, dict):
        raise HTTPException(422, "The body of the request is not a JSON object. Send one.")
    return body
