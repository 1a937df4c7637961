"""The simulator's own API, under `/sim/v1`: look at the truth, ask for faults, make time pass."""

from dataclasses import asdict
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from anygpu.testing.cloud.cloud import Cloud
from anygpu.testing.cloud.faults import Fault, Kind
from anygpu.testing.cloud.instance import Instance


def app(cloud: Cloud) -> ASGIApp:
    desk = _Desk(cloud)
    routes = [
        Route("/v1/state", desk.state),
        Route("/v1/instances", desk.instances),
        Route("/v1/books", desk.books),
        Route("/v1/faults", desk.faults),
        Route("/v1/faults", desk.add_fault, methods=["POST"]),
        Route("/v1/faults", desk.lift_faults, methods=["DELETE"]),
        Route("/v1/faults/{id}", desk.lift_faults, methods=["DELETE"]),
        Route("/v1/advance", desk.advance, methods=["POST"]),
        Route("/v1/meter", desk.perturb, methods=["POST"]),
        Route("/v1/{what}/{id}", desk.strike, methods=["POST"]),
    ]
    return Starlette(routes=routes)


class _Desk:
    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._strikes = {"preempt", "cut", "refuse_ssh", "fill_disk", "end"}

    async def state(self, request: Request) -> Response:
        alive = [each for each in self._cloud.instances.values() if not each.state.over]
        billed = sum(entry.billed_microusd for entry in self._cloud.entries())
        return JSONResponse(
            {
                "now_ms": self._cloud.clock.now_ms(),
                "ssh_port": self._cloud.ssh_port,
                "instances": len(self._cloud.instances),
                "alive": len(alive),
                "billed_microusd": billed,
                "meter_factor": self._cloud.books.factor,
                "faults": len(self._cloud.faults.standing()),
            }
        )

    async def instances(self, request: Request) -> Response:
        return JSONResponse([as_json(each) for each in self._cloud.instances.values()])

    async def books(self, request: Request) -> Response:
        return JSONResponse([entry.json() for entry in self._cloud.entries()])

    async def faults(self, request: Request) -> Response:
        return JSONResponse([asdict(fault) for fault in self._cloud.faults.standing()])

    async def add_fault(self, request: Request) -> Response:
        wanted = await _body(request)
        try:
            fault = Fault(**{**wanted, "kind": Kind(wanted.get("kind", ""))})
        except (TypeError, ValueError) as error:
            known = ", ".join(Kind)
            raise HTTPException(422, f"{error}. The kinds of fault: {known}.") from error
        return JSONResponse({"id": self._cloud.faults.add(fault)}, status_code=201)

    async def lift_faults(self, request: Request) -> Response:
        self._cloud.faults.lift(request.path_params.get("id", ""))
        return Response(status_code=204)

    async def advance(self, request: Request) -> Response:
        self._cloud.clock.advance(float((await _body(request)).get("seconds", 0)))
        return JSONResponse({"now_ms": self._cloud.clock.now_ms()})

    async def perturb(self, request: Request) -> Response:
        self._cloud.books.factor = float((await _body(request)).get("factor", 1))
        return JSONResponse({"meter_factor": self._cloud.books.factor})

    async def strike(self, request: Request) -> Response:
        what, instance = request.path_params["what"], self._cloud.instances.get(request.path_params["id"])
        if instance is None or what not in self._strikes:
            raise HTTPException(404, f"No such machine, or not one of {', '.join(sorted(self._strikes))}.")
        await self._apply(what, instance, await _body(request))
        return JSONResponse(as_json(instance))

    async def _apply(self, what: str, instance: Instance, body: dict[str, Any]) -> None:
        seconds = None if body.get("seconds") is None else float(body["seconds"])
        if what == "preempt":
            self._cloud.preempt(instance.id, body.get("notice_s"))
        elif what == "cut":
            self._cloud.lifecycle.cut(instance, seconds)
        elif what == "refuse_ssh":
            await self._cloud.lifecycle.refuse_ssh(instance, seconds)
        elif what == "fill_disk":
            self._cloud.lifecycle.fill_disk(instance, body.get("bytes", 0))
        else:
            self._cloud.end(instance)


def as_json(instance: Instance) -> dict[str, Any]:
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
        "inside_ip": instance.inside_ip,
        "cause": instance.cause,
        "created_at_ms": instance.created_at_ms,
        "booted_at_ms": instance.booted_at_ms,
        "notice_at_ms": instance.notice_at_ms,
        "taken_at_ms": instance.taken_at_ms,
        "off_at_ms": instance.off_at_ms,
        "stopped_at_ms": instance.stopped_at_ms,
        "ended_at_ms": instance.ended_at_ms,
        "tags": dict(instance.tags),
    }


async def _body(request: Request) -> dict[str, Any]:
    if not await request.body():
        return {}
    body = await request.json()
    if not isinstance(body, dict):
        raise HTTPException(422, "The body must be a JSON object.")
    return body
