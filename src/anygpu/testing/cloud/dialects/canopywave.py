"""CanopyWave's cloud API v1 (canopywave.com/cloud-api): OpenStack underneath, public addresses rented apart."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Router
from starlette.types import ASGIApp

from anygpu.testing.cloud.cloud import Cloud
from anygpu.testing.cloud.dialects._canopy_goods import (
    CPU_IMAGES,
    GPU_IMAGES,
    PROJECT,
    VENDOR,
    flavor,
    flavor_json,
    images_of,
    title,
)
from anygpu.testing.cloud.dialects._openstack import details, vm_state
from anygpu.testing.cloud.dialects._wire import Face, asked, iso, key_pair, text, uuid_of
from anygpu.testing.cloud.instance import Instance, Order
from anygpu.testing.cloud.refusals import Refusal, Why
from anygpu.testing.cloud.resources import Address, Key

# The vendor documents the shape {"error": "<message>"} and the 401; the other texts are OpenStack's own.
WORDS: Mapping[Why, tuple[int, str]] = {
    Why.BAD_CREDENTIALS: (401, "Unauthorized"),
    Why.THROTTLED: (429, "Too many requests"),
    Why.NO_CAPACITY: (400, "No valid host was found. There are not enough hosts available."),
    Why.QUOTA: (403, "Quota exceeded for cores"),
    Why.NOT_FOUND: (404, ""),
    Why.CONFLICT: (409, ""),
}


def refused(refusal: Refusal) -> Response:
    status, message = WORDS.get(refusal.why, (400, ""))
    return JSONResponse({"error": message or refusal.message}, status)


def app(cloud: Cloud) -> ASGIApp:
    return CanopyWave(cloud).router()


class CanopyWave:
    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def router(self) -> Router:
        route = Face(self._cloud, VENDOR, refused).route
        return Router(
            [
                route("GET", "/api/v1/projects", "projects", self.projects),
                route("GET", "/api/v1/regions", "regions", self.regions),
                route("GET", "/api/v1/images", "images", self.images),
                route("GET", "/api/v1/instance-types", "types", self.types),
                route("GET", "/api/v1/flavor-availability", "types", self.availability),
                route("GET", "/api/v1/instances", "list", self.list),
                route("GET", "/api/v1/instances/running", "list", self.running),
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

    # What there is

    async def projects(self, _: Request) -> Any:
        return {"data": [PROJECT]}

    async def regions(self, request: Request) -> Any:
        _project(request.query_params)
        return {"data": list(VENDOR.regions)}

    async def images(self, _: Request) -> Any:
        return {"data": [*CPU_IMAGES, *GPU_IMAGES]}

    async def types(self, _: Request) -> Any:
        return {"data": [flavor_json(kind) for kind in VENDOR.types]}

    async def availability(self, request: Request) -> Any:
        region, kind = _place(request.query_params), flavor(text(request.query_params, "flavor"))
        return {"data": {"available": self._cloud.has_capacity(VENDOR, kind, region, spot=False)}}

    # Machines

    async def list(self, request: Request) -> Any:
        _project(request.query_params)
        found = self._cloud.listed(VENDOR, region=request.query_params.get("region", ""), forget_s=0)
        return {"data": [_json(each) for each in found]}

    async def running(self, request: Request) -> Any:
        found = self._cloud.listed(VENDOR, region=_place(request.query_params), forget_s=0)
        return {"data": [_json(each) for each in found if vm_state(each) == "active"]}

    async def get(self, request: Request) -> Any:
        _place(request.query_params)
        return {"data": details(self._find(request.path_params["id"]), PROJECT)}

    async def launch(self, request: Request) -> Any:
        given = await asked(request)
        order = self._order(given)
        instance = self._cloud.rent(order, id=uuid_of(self._cloud.new_id("", 32)))
        return {"data": {"id": instance.id}}

    async def terminate(self, request: Request) -> Any:
        given = await asked(request)
        _place(given)
        instance = self._find(text(given, "id"))
        self._cloud.end(instance)
        return {"data": {"id": instance.id}}

    def _order(self, given: Mapping[str, Any]) -> Order:
        region, name = _place(given), text(given, "name")
        kind, image = flavor(text(given, "flavor")), text(given, "image")
        text(given, "password")  # required, and set on the machine, where only keys may log in
        if image not in images_of(kind):
            raise Refusal(Why.INVALID, f"Image {image} does not fit flavor {kind.name}", what=image)
        keypair = given.get("keypair")
        keys = (self._cloud.keys.find(VENDOR, region, keypair),) if keypair else ()
        # Names are not checked to be unique: OpenStack does not, so that two launches are two machines.
        return Order(
            vendor=VENDOR,
            type=kind.name,
            region=region,
            name=name,
            public_address=False,
            public_keys=tuple(key.public_key for key in keys),
            native={"image": image, "keypair": keypair},
        )

    def _find(self, id: str) -> Instance:
        instance = self._cloud.instances.get(id)
        if instance is None or instance.vendor is not VENDOR or instance.ended_at_ms is not None:
            raise Refusal(Why.NOT_FOUND, f"Instance {id} could not be found.", what=id)
        return instance

    # Keys

    async def keys(self, request: Request) -> Any:
        region = _place(request.query_params)
        return {"data": [_key_json(key) for key in self._cloud.keys.all(VENDOR, region)]}

    async def add_key(self, request: Request) -> Any:
        given = await asked(request)
        private, public = ("", given["publicKey"]) if given.get("publicKey") else key_pair()
        key = self._cloud.keys.add(VENDOR, _place(given), text(given, "name"), public)
        made = {"publicKey": key.public_key}
        return {"data": {"privateKey": private, **made} if private else made}

    async def remove_key(self, request: Request) -> Any:
        name = request.path_params["name"]
        self._cloud.keys.remove(VENDOR, _place(request.query_params), name)
        return {"data": {"name": name}}

    # Addresses: they bill from their allocation until they are released, whatever becomes of the machine

    async def ips(self, request: Request) -> Any:
        region = _place(request.query_params)
        found = [each for each in self._cloud.addresses.all(VENDOR) if each.region == region]
        return {"data": [self._address_json(each) for each in found]}

    async def allocate(self, request: Request) -> Any:
        region = _place(await asked(request))
        made = self._cloud.addresses.allocate(VENDOR, region, id=uuid_of(self._cloud.new_id("", 32)))
        return {"data": {"id": made.id, "ip": made.ip}}

    async def associate(self, request: Request) -> Any:
        given = await asked(request)
        _place(given)
        address = self._cloud.addresses.find(VENDOR, request.path_params["id"])
        instance = self._find(text(given, "instanceId"))
        await self._cloud.associate(address, instance)
        port = uuid_of(instance.id.replace("-", "")[::-1])
        return {"data": {"instanceId": instance.id, "ipId": address.id, "portId": port}}

    async def disassociate(self, request: Request) -> Any:
        address = self._address(request)
        await self._cloud.disassociate(address)
        return {"data": {"id": address.id}}

    async def release(self, request: Request) -> Any:
        address = self._address(request)
        self._cloud.addresses.release(address)
        return {"data": {"id": address.id}}

    def _address(self, request: Request) -> Address:
        _place(request.query_params)
        return self._cloud.addresses.find(VENDOR, request.path_params["id"])

    def _address_json(self, address: Address) -> dict[str, Any]:
        server = self._cloud.instances.get(address.instance)
        return {
            "id": address.id,
            "ip": address.ip,
            "server": server.name if server else None,
            "status": "ACTIVE" if server else "DOWN",
        }


def _project(given: Mapping[str, Any]) -> None:
    if (project := text(given, "project")) != PROJECT:
        raise Refusal(Why.INVALID, f"You have no permission for project {project}", what=project)


def _place(given: Mapping[str, Any]) -> str:
    """The region, once project and region are known to be right."""
    _project(given)
    if (region := text(given, "region")) not in VENDOR.regions:
        raise Refusal(Why.INVALID, f"Region {region} does not exist", what=region)
    return region


def _json(instance: Instance) -> dict[str, Any]:
    return {
        "flavor": title(instance.type),
        "id": instance.id,
        "launchedAt": iso(instance.running_at_ms, "microseconds", zone=""),
        "name": instance.name,
        "paymentMode": None,
        "publicIp": instance.address or None,
        "region": instance.region,
        "role": "worker",
        "status": vm_state(instance),
    }


def _key_json(key: Key) -> dict[str, Any]:
    fingerprint = ":".join(f"{key.id[4:]:0>32}"[at : at + 2] for at in range(0, 32, 2))
    return {"keypair": {"fingerprint": fingerprint, "name": key.name, "public_key": key.public_key}}
