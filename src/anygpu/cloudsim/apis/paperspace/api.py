"""Paperspace's routes: machines, startup scripts, public addresses.

The API has no calls for SSH keys: a startup script adds the keys that may log in.
"""

import itertools
from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Router
from starlette.types import ASGIApp

from anygpu.cloudsim.apis.json_api import JsonApi, iso_time, json_body, required_text
from anygpu.cloudsim.apis.paperspace.machines import TEMPLATES, VENDOR, machine_json, template_json
from anygpu.cloudsim.apis.paperspace.startup_scripts import StartupScripts, page
from anygpu.cloudsim.cloud import Cloud
from anygpu.cloudsim.errors import CloudError, ErrorReason
from anygpu.cloudsim.instance import Instance, InstanceOrder
from anygpu.cloudsim.resources import PublicAddress

HOUR_S = 3600

# Codes and statuses as in Paperspace's client (Paperspace/cli, api/client.ts); messages are undocumented.
ERRORS: Mapping[ErrorReason, tuple[int, str, str]] = {
    ErrorReason.BAD_CREDENTIALS: (401, "UNAUTHORIZED", "Invalid API key"),
    ErrorReason.THROTTLED: (429, "TOO_MANY_REQUESTS", "Too many requests, please try again later."),
    ErrorReason.NO_CAPACITY: (
        412,
        "PRECONDITION_FAILED",
        "Out of capacity: the machine type is not available in this region.",
    ),
    ErrorReason.QUOTA: (
        403,
        "FORBIDDEN",
        "Your team has reached its limit of machines. Contact support to raise it.",
    ),
    ErrorReason.NOT_FOUND: (404, "NOT_FOUND", ""),
    ErrorReason.CONFLICT: (409, "CONFLICT", ""),
}


def error_response(refusal: CloudError) -> Response:
    status, code, message = ERRORS.get(refusal.reason, (400, "BAD_REQUEST", ""))
    return JSONResponse({"code": code, "message": message or refusal.message}, status)


def app(cloud: Cloud) -> ASGIApp:
    return SimulatedPaperspace(cloud).router()


class SimulatedPaperspace:
    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._scripts = StartupScripts(cloud)
        self._events: dict[str, dict[str, Any]] = {}
        self._count = itertools.count(1)

    def router(self) -> Router:
        route, scripts = JsonApi(self._cloud, VENDOR, error_response).route, self._scripts
        return Router(
            [
                route("GET", "/v1/auth/session", "whoami", self.session),
                route("GET", "/v1/os-templates", "templates", self.templates),
                route("GET", "/v1/machine-availability", "types", self.availability),
                route("GET", "/v1/machines", "list", self.list),
                route("POST", "/v1/machines", "launch", self.create),
                route("GET", "/v1/machines/{id}", "get", self.get),
                route("DELETE", "/v1/machines/{id}", "end", self.delete),
                route("PATCH", "/v1/machines/{id}/stop", "stop", self.stop),
                route("GET", "/v1/machine-events", "events", self.events),
                route("GET", "/v1/machine-events/{id}", "events", self.event),
                route("GET", "/v1/startup-scripts", "scripts", scripts.list),
                route("POST", "/v1/startup-scripts", "add_script", scripts.add),
                route("GET", "/v1/startup-scripts/{id}", "scripts", scripts.get),
                route("DELETE", "/v1/startup-scripts/{id}", "remove_script", scripts.remove),
                route("GET", "/v1/public-ips", "addresses", self.ips),
                route("POST", "/v1/public-ips", "allocate", self.claim),
                route("PUT", "/v1/public-ips/{ip}", "associate", self.assign),
                route("DELETE", "/v1/public-ips/{ip}", "release", self.release),
            ]
        )

    # Catalog

    async def session(self, _: Request) -> Any:
        team = {"id": "tsim000001", "namespace": "anygpu-sim", "maxMachines": VENDOR.vcpu_limit}
        return {"user": {"id": "usim000001", "email": "sim@example.com"}, "team": team}

    async def templates(self, request: Request) -> Any:
        return page(list(TEMPLATES), request, template_json)

    async def availability(self, request: Request) -> Any:
        query = request.query_params
        region, machine_type = _checked_region(query), VENDOR.find_type(required_text(query, "machineType"))
        return {
            "available": machine_type is not None
            and self._cloud.has_capacity(VENDOR, machine_type, region, spot=False)
        }

    # Machines

    async def list(self, request: Request) -> Any:
        query = request.query_params
        region = _checked_region(query) if query.get("region") else ""
        instances = [
            each
            for each in self._cloud.list_instances(VENDOR, region=region, forget_s=0)
            if query.get("name", each.name) == each.name
            and query.get("machineType", each.type.name) == each.type.name
        ]
        return page(instances, request, machine_json)

    async def get(self, request: Request) -> Any:
        return machine_json(self._find(request.path_params["id"]))

    async def create(self, request: Request) -> Any:
        body = await json_body(request)
        instance = self._cloud.launch(self._order(body), id=self._cloud.new_id("ps", 10))
        if body.get("publicIpType") == "static":
            address = self._cloud.addresses.allocate(VENDOR, instance.region, name=instance.name)
            await self._cloud.lifecycle.associate(address, instance)
        if body.get("autoShutdownEnabled"):
            self._schedule_auto_shutdown(instance, float(body.get("autoShutdownTimeout") or 0) * HOUR_S)
        return {"event": self._add_event("create", instance), "data": machine_json(instance)}

    async def delete(self, request: Request) -> Any:
        instance = self._find(request.path_params["id"])
        self._cloud.terminate(instance)
        return {"event": self._add_event("delete", instance), "data": machine_json(instance)}

    async def stop(self, request: Request) -> Any:
        instance = self._find(request.path_params["id"])
        self._cloud.lifecycle.schedule_shutdown(instance, 0)
        return {"event": self._add_event("stop", instance), "data": machine_json(instance)}

    def _order(self, body: Mapping[str, Any]) -> InstanceOrder:
        name, machine_type, region = (
            required_text(body, "name"),
            required_text(body, "machineType"),
            _checked_region(body),
        )
        if required_text(body, "templateId") not in {template.id for template in TEMPLATES}:
            raise CloudError(
                ErrorReason.NOT_FOUND,
                "Template not found: no OS template has this templateId. List the OS templates for their ids.",
                subject="templateId",
            )
        if not isinstance(body.get("diskSize"), int):
            raise CloudError(ErrorReason.INVALID, "diskSize is required", subject="diskSize")
        script = self._scripts.boot_script(body.get("startupScriptId"))
        return InstanceOrder(
            vendor=VENDOR,
            type=machine_type,
            region=region,
            name=name,
            user_data=script.encode(),
            public_address=body.get("publicIpType") == "dynamic",
            disk_gib=body["diskSize"],
            native=dict(body),
        )

    def _schedule_auto_shutdown(self, instance: Instance, seconds: float) -> None:
        def stop() -> None:
            if instance.state.is_active:
                self._cloud.lifecycle.schedule_shutdown(instance, 0)

        self._cloud.clock.call_after(seconds, stop)

    def _find(self, id: str) -> Instance:
        instance = self._cloud.instances.get(id)
        if instance is None or instance.vendor is not VENDOR or instance.ended_at_ms is not None:
            raise CloudError(
                ErrorReason.NOT_FOUND,
                "Machine not found: no machine has this id. List the machines for their ids.",
                subject=id,
            )
        return instance

    # Events

    async def events(self, request: Request) -> Any:
        machine = request.query_params.get("machineId")
        events = [each for each in self._events.values() if machine in (None, each["machineId"])]
        return page(events[::-1], request, dict)

    async def event(self, request: Request) -> Any:
        if (event := self._events.get(request.path_params["id"])) is None:
            raise CloudError(
                ErrorReason.NOT_FOUND,
                "Machine event not found: no event has this id. List the machine events for their ids.",
            )
        return event

    def _add_event(self, name: str, instance: Instance) -> dict[str, Any]:
        now = iso_time(self._cloud.clock.now_ms())
        event = {"id": str(next(self._count)), "name": name, "state": "done", "machineId": instance.id}
        times = {"dtCreated": now, "dtStarted": now, "dtFinished": now, "error": None}
        self._events[event["id"]] = {**event, **times}
        return {**event, **times, "state": "new", "dtStarted": None, "dtFinished": None}

    # Public addresses: a static address stays allocated and billed when its machine is deleted

    async def ips(self, request: Request) -> Any:
        return page(self._cloud.addresses.all(VENDOR), request, _address_json)

    async def claim(self, request: Request) -> Any:
        return _address_json(
            self._cloud.addresses.allocate(VENDOR, _checked_region(await json_body(request)))
        )

    async def assign(self, request: Request) -> Any:
        address = self._cloud.addresses.find(VENDOR, request.path_params["ip"])
        if (machine := (await json_body(request)).get("machineId")) is None:
            await self._cloud.lifecycle.disassociate(address)
        else:
            await self._cloud.lifecycle.associate(address, self._find(machine))
        return _address_json(address)

    async def release(self, request: Request) -> Any:
        address = self._cloud.addresses.find(VENDOR, request.path_params["ip"])
        self._cloud.addresses.release(address)
        return {"ip": address.ip}


def _checked_region(body: Mapping[str, Any]) -> str:
    region = required_text(body, "region").lower()
    if region not in VENDOR.regions:
        raise CloudError(
            ErrorReason.INVALID,
            f"Invalid region {region}. Send the name of a region of Paperspace.",
            subject=region,
        )
    return region


def _address_json(address: PublicAddress) -> dict[str, Any]:
    return {
        "ip": address.ip,
        "region": address.region,
        "assignedMachineId": address.instance or None,
        "dtCreated": iso_time(address.allocated_at_ms),
    }
