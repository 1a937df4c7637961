"""CanopyWave's routes.

The JSON of a server has OpenStack's format; public addresses are rented separately.
"""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Router
from starlette.types import ASGIApp

from anygpu.cloudsim.apis.canopywave.flavors import (
    PROJECT,
    VENDOR,
    find_flavor,
    flavor_json,
    images_of,
    title,
)
from anygpu.cloudsim.apis.canopywave.openstack import server_json, vm_state
from anygpu.cloudsim.apis.json_api import JsonApi, as_uuid, iso_time, json_body, new_key_pair, required_text
from anygpu.cloudsim.cloud import Cloud
from anygpu.cloudsim.errors import CloudError, ErrorReason
from anygpu.cloudsim.instance import Instance, InstanceOrder
from anygpu.cloudsim.resources import LoginKey, PublicAddress

# The vendor documents the shape {"error": "<message>"} and the 401; the other texts are OpenStack's own.
ERRORS: Mapping[ErrorReason, tuple[int, str]] = {
    ErrorReason.BAD_CREDENTIALS: (401, "Unauthorized"),
    ErrorReason.THROTTLED: (429, "Too many requests"),
    ErrorReason.NO_CAPACITY: (400, "No valid host was found. There are not enough hosts available."),
    ErrorReason.QUOTA: (403, "Quota exceeded for cores"),
    ErrorReason.NOT_FOUND: (404, ""),
    ErrorReason.CONFLICT: (409, ""),
}


def error_response(refusal: CloudError) -> Response:
    status, message = ERRORS.get(refusal.reason, (400, ""))
    return JSONResponse({"error": message or refusal.message}, status)


def app(cloud: Cloud) -> ASGIApp:
    return SimulatedCanopyWave(cloud).router()


class SimulatedCanopyWave:
    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def router(self) -> Router:
        route = JsonApi(self._cloud, VENDOR, error_response).route
        return Router(
            [
                route("GET", "/api/v1/projects", "projects", self.projects),
                route("GET", "/api/v1/regions", "regions", self.regions),
                route("GET", "/api/v1/instance-types", "types", self.types),
                route("GET", "/api/v1/instances", "list", self.list),
                route("GET", "/api/v1/instances/{id}", "get", self.get),
                route("POST", "/api/v1/instance-operations/launch", "launch", self.launch),
                route("POST", "/api/v1/instance-operations/terminate", "end", self.terminate),
                route("GET", "/api/v1/ssh-keys", "keys", self.keys),
                route("POST", "/api/v1/ssh-keys", "add_key", self.add_key),
                route("DELETE", "/api/v1/ssh-keys/{name}", "remove_key", self.remove_key),
                route("GET", "/api/v1/ips", "addresses", self.ips),
                route("POST", "/api/v1/ips", "allocate", self.allocate),
                route("POST", "/api/v1/ips/{id}/associate", "associate", self.associate),
                route("DELETE", "/api/v1/ips/{id}/disassociate", "disassociate", self.disassociate),
                route("DELETE", "/api/v1/ips/{id}", "release", self.release),
            ]
        )

    # Catalog

    async def projects(self, _: Request) -> Any:
        return {"data": [PROJECT]}

    async def regions(self, request: Request) -> Any:
        _check_project(request.query_params)
        return {"data": list(VENDOR.regions)}

    async def types(self, _: Request) -> Any:
        return {"data": [flavor_json(machine_type) for machine_type in VENDOR.types]}

    # Machines

    async def list(self, request: Request) -> Any:
        _check_project(request.query_params)
        instances = self._cloud.list_instances(
            VENDOR, region=request.query_params.get("region", ""), forget_s=0
        )
        return {"data": [_instance_json(each) for each in instances]}

    async def get(self, request: Request) -> Any:
        _checked_region(request.query_params)
        return {"data": server_json(self._find(request.path_params["id"]), PROJECT)}

    async def launch(self, request: Request) -> Any:
        body = await json_body(request)
        order = self._order(body)
        instance = self._cloud.launch(order, id=as_uuid(self._cloud.new_id("", 32)))
        return {"data": {"id": instance.id}}

    async def terminate(self, request: Request) -> Any:
        body = await json_body(request)
        _checked_region(body)
        instance = self._find(required_text(body, "id"))
        self._cloud.terminate(instance)
        return {"data": {"id": instance.id}}

    def _order(self, body: Mapping[str, Any]) -> InstanceOrder:
        region, name = _checked_region(body), required_text(body, "name")
        machine_type, image = find_flavor(required_text(body, "flavor")), required_text(body, "image")
        required_text(body, "password")  # required by the API; ignored here, because login needs a key
        if image not in images_of(machine_type):
            raise CloudError(
                ErrorReason.INVALID,
                f"Image {image} cannot be used with flavor {machine_type.name}. List the images of the flavor "
                "first.",
                subject=image,
            )
        keypair = body.get("keypair")
        keys = (self._cloud.keys.find(VENDOR, region, keypair),) if keypair else ()
        # OpenStack does not require unique names: two launches with the same name create two machines.
        return InstanceOrder(
            vendor=VENDOR,
            type=machine_type.name,
            region=region,
            name=name,
            public_address=False,
            public_keys=tuple(key.public_key for key in keys),
            native={"image": image, "keypair": keypair},
        )

    def _find(self, id: str) -> Instance:
        instance = self._cloud.instances.get(id)
        if instance is None or instance.vendor is not VENDOR or instance.ended_at_ms is not None:
            raise CloudError(
                ErrorReason.NOT_FOUND,
                f"Instance {id} could not be found. List the instances for their ids.",
                subject=id,
            )
        return instance

    # Keys

    async def keys(self, request: Request) -> Any:
        region = _checked_region(request.query_params)
        return {"data": [_key_json(key) for key in self._cloud.keys.all(VENDOR, region)]}

    async def add_key(self, request: Request) -> Any:
        body = await json_body(request)
        private, public = ("", body["publicKey"]) if body.get("publicKey") else new_key_pair()
        key = self._cloud.keys.add(VENDOR, _checked_region(body), required_text(body, "name"), public)
        made = {"publicKey": key.public_key}
        return {"data": {"privateKey": private, **made} if private else made}

    async def remove_key(self, request: Request) -> Any:
        name = request.path_params["name"]
        self._cloud.keys.remove(VENDOR, _checked_region(request.query_params), name)
        return {"data": {"name": name}}

    # Addresses are billed from allocation to release, with or without a machine

    async def ips(self, request: Request) -> Any:
        region = _checked_region(request.query_params)
        addresses = [each for each in self._cloud.addresses.all(VENDOR) if each.region == region]
        return {"data": [self._address_json(each) for each in addresses]}

    async def allocate(self, request: Request) -> Any:
        region = _checked_region(await json_body(request))
        made = self._cloud.addresses.allocate(VENDOR, region, id=as_uuid(self._cloud.new_id("", 32)))
        return {"data": {"id": made.id, "ip": made.ip}}

    async def associate(self, request: Request) -> Any:
        body = await json_body(request)
        _checked_region(body)
        address = self._cloud.addresses.find(VENDOR, request.path_params["id"])
        instance = self._find(required_text(body, "instanceId"))
        await self._cloud.lifecycle.associate(address, instance)
        port = as_uuid(instance.id.replace("-", "")[::-1])
        return {"data": {"instanceId": instance.id, "ipId": address.id, "portId": port}}

    async def disassociate(self, request: Request) -> Any:
        address = self._address(request)
        await self._cloud.lifecycle.disassociate(address)
        return {"data": {"id": address.id}}

    async def release(self, request: Request) -> Any:
        address = self._address(request)
        self._cloud.addresses.release(address)
        return {"data": {"id": address.id}}

    def _address(self, request: Request) -> PublicAddress:
        _checked_region(request.query_params)
        return self._cloud.addresses.find(VENDOR, request.path_params["id"])

    def _address_json(self, address: PublicAddress) -> dict[str, Any]:
        server = self._cloud.instances.get(address.instance)
        return {
            "id": address.id,
            "ip": address.ip,
            "server": server.name if server else None,
            "status": "ACTIVE" if server else "DOWN",
        }


def _check_project(body: Mapping[str, Any]) -> None:
    if (project := required_text(body, "project")) != PROJECT:
        raise CloudError(
            ErrorReason.INVALID,
            f"You have no permission for project {project}. Use a project of your API key.",
            subject=project,
        )


def _checked_region(body: Mapping[str, Any]) -> str:
    """Return the region of a request. Raise CloudError if the project or the region is unknown."""
    _check_project(body)
    if (region := required_text(body, "region")) not in VENDOR.regions:
        raise CloudError(
            ErrorReason.INVALID,
            f"Region {region} does not exist. List the regions for their names.",
            subject=region,
        )
    return region


def _instance_json(instance: Instance) -> dict[str, Any]:
    return {
        "flavor": title(instance.type),
        "id": instance.id,
        "launchedAt": iso_time(instance.running_at_ms, "microseconds", zone=""),
        "name": instance.name,
        "paymentMode": None,
        "publicIp": instance.address or None,
        "region": instance.region,
        "role": "worker",
        "status": vm_state(instance),
    }


def _key_json(key: LoginKey) -> dict[str, Any]:
    fingerprint = ":".join(f"{key.id[4:]:0>32}"[at : at + 2] for at in range(0, 32, 2))
    return {"keypair": {"fingerprint": fingerprint, "name": key.name, "public_key": key.public_key}}
