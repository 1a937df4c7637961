"""Lambda Cloud's API v1 (docs-api.lambda.ai): keys that must exist, no client token, names that are only labels."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Router
from starlette.types import ASGIApp

from anygpu.testing.cloud.cloud import Cloud
from anygpu.testing.cloud.dialects._wire import Face, asked, bearer_or_basic, key_pair, text
from anygpu.testing.cloud.instance import Instance, Order, State
from anygpu.testing.cloud.refusals import Refusal, Why
from anygpu.testing.cloud.resources import Key
from anygpu.testing.cloud.vendor import MachineType, Rule, Vendor

REGIONS = {"us-east-1": "Virginia, USA", "us-south-1": "Texas, USA", "us-west-1": "California, USA"}
GPUS = {
    "RTX 6000": "24 GB",
    "A10": "24 GB PCIe",
    "A100": "40 GB SXM4",
    "H100": "80 GB SXM5",
    "GH200": "96 GB",
}
LAUNCH_EVERY_S = 10  # docs.lambda.ai, "Are API requests rate-limited?"
FORGET_S = 60  # terminated instances leave the list after a while
NAME_CHARS = 64


def _type(
    name: str, gpu: str, count: int, cents: int, vcpus: int, memory_gib: int, disk_gib: int
) -> MachineType:
    return MachineType(
        name=name,
        price_microusd_per_hour=cents * 10_000,
        vcpus=vcpus,
        memory_gib=memory_gib,
        gpu_kind=gpu,
        gpu_count=count,
        gpu_memory_gib=float(GPUS[gpu].split()[0]),
        disk_gib=disk_gib,
    )


VENDOR = Vendor(
    name="lambda",
    regions=dict.fromkeys(REGIONS, ()),
    types=(
        _type("gpu_1x_rtx6000", "RTX 6000", 1, 69, 14, 46, 512),
        _type("gpu_1x_a10", "A10", 1, 129, 30, 200, 1400),
        _type("gpu_1x_a100_sxm4", "A100", 1, 199, 30, 200, 512),
        _type("gpu_1x_gh200", "GH200", 1, 229, 64, 432, 4096),
        _type("gpu_1x_h100_sxm5", "H100", 1, 429, 26, 225, 2816),
        _type("gpu_8x_h100_sxm5", "H100", 8, 3192, 208, 1800, 22528),
    ),
    rule=Rule(step_s=60),
    on_halt="off",  # one that shuts itself down is billed on until it is terminated
    credentials={"sim-lambda-key": ""},
)

# Lambda's own codes and texts, from its OpenAPI document (schemas ApiError…).
ERRORS: Mapping[Why, tuple[int, str, str]] = {
    Why.BAD_CREDENTIALS: (401, "global/invalid-api-key", "API key was invalid, expired, or deleted."),
    Why.NO_CAPACITY: (
        400,
        "instance-operations/launch/insufficient-capacity",
        "Not enough capacity to fulfill launch request.",
    ),
    Why.QUOTA: (400, "global/quota-exceeded", "Quota exceeded."),
    Why.NOT_FOUND: (404, "global/object-does-not-exist", ""),
    Why.CONFLICT: (400, "global/duplicate", ""),
    Why.INVALID: (400, "global/invalid-parameters", ""),
}
SUGGESTIONS = {
    Why.BAD_CREDENTIALS: "Check your API key or create a new one, then try again.",
    Why.QUOTA: "Contact Support to increase your quota.",
}


def refused(refusal: Refusal) -> Response:
    if (
        refusal.why is Why.THROTTLED
    ):  # the limit is kept by what stands in front of Lambda, which sends no JSON
        return PlainTextResponse("error code: 1015", 429, {"Retry-After": str(LAUNCH_EVERY_S)})
    status, code, message = ERRORS.get(refusal.why, ERRORS[Why.INVALID])
    error = {"code": code, "message": message or refusal.message}
    if suggestion := SUGGESTIONS.get(refusal.why):
        error["suggestion"] = suggestion
    return JSONResponse({"error": error}, status)


def app(cloud: Cloud) -> ASGIApp:
    return LambdaCloud(cloud).router()


class LambdaCloud:
    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._last_launch_s: dict[str, float] = {}

    def router(self) -> Router:
        route = Face(self._cloud, VENDOR, refused, bearer_or_basic).route
        return Router(
            [
                route("GET", "/api/v1/instance-types", "types", self.types),
                route("GET", "/api/v1/instances", "list", self.list),
                route("GET", "/api/v1/instances/{id}", "get", self.get),
                route("POST", "/api/v1/instance-operations/launch", "launch", self.launch),
                route("POST", "/api/v1/instance-operations/terminate", "end", self.terminate),
                route("GET", "/api/v1/ssh-keys", "keys", self.keys),
                route("POST", "/api/v1/ssh-keys", "add_key", self.add_key),
                route("DELETE", "/api/v1/ssh-keys/{id}", "remove_key", self.remove_key),
            ]
        )

    async def types(self, _: Request) -> Any:
        return {
            "data": {
                kind.name: {
                    "instance_type": _type_json(kind),
                    "regions_with_capacity_available": [
                        _region(name)
                        for name in REGIONS
                        if self._cloud.has_capacity(VENDOR, kind, name, spot=False)
                    ],
                }
                for kind in VENDOR.types
            }
        }

    async def list(self, _: Request) -> Any:
        return {"data": [_json(each) for each in self._cloud.listed(VENDOR, forget_s=FORGET_S)]}

    async def get(self, request: Request) -> Any:
        return {"data": _json(self._find(request.path_params["id"]))}

    async def launch(self, request: Request) -> Any:
        self._pace(bearer_or_basic(request))
        given = await asked(request)
        key = self._key(given.get("ssh_key_names"))
        instance = self._cloud.rent(_order(given, key), id=self._cloud.new_id("", 32))
        return {"data": {"instance_ids": [instance.id]}}

    async def terminate(self, request: Request) -> Any:
        ids = (await asked(request)).get("instance_ids")
        if not isinstance(ids, list) or not ids:
            raise Refusal(Why.INVALID, "instance_ids must name at least one instance.")
        found = [self._find(id) for id in ids]  # all of them, before any is ended
        for instance in found:
            self._cloud.end(instance)
        return {"data": {"terminated_instances": [_json(each) for each in found]}}

    async def keys(self, _: Request) -> Any:
        return {"data": [_key_json(key) for key in self._cloud.keys.all(VENDOR)]}

    async def add_key(self, request: Request) -> Any:
        given = await asked(request)
        name = text(given, "name")
        private, public = ("", given["public_key"]) if given.get("public_key") else key_pair()
        made = _key_json(self._cloud.keys.add(VENDOR, "", name, public))
        return {"data": {**made, "private_key": private} if private else made}

    async def remove_key(self, request: Request) -> Any:
        self._cloud.keys.remove(VENDOR, "", request.path_params["id"])
        return {"data": {}}

    def _pace(self, api_key: str) -> None:
        now_s = self._cloud.clock.now_s()
        if now_s - self._last_launch_s.get(api_key, float("-inf")) < LAUNCH_EVERY_S:
            raise Refusal(Why.THROTTLED, "Too many launches.")
        self._last_launch_s[api_key] = now_s

    def _key(self, names: Any) -> Key:
        if not isinstance(names, list) or len(names) != 1:
            raise Refusal(Why.INVALID, "Exactly one SSH key must be specified in ssh_key_names.")
        try:
            return self._cloud.keys.find(VENDOR, "", str(names[0]))
        except Refusal as refusal:
            raise Refusal(Why.INVALID, f"Specified SSH key does not exist: {names[0]}") from refusal

    def _find(self, id: str) -> Instance:
        instance = self._cloud.instances.get(id)
        if instance is None or instance.vendor is not VENDOR or self._forgotten(instance):
            raise Refusal(Why.NOT_FOUND, "Specified instance does not exist.", what=id)
        return instance

    def _forgotten(self, instance: Instance) -> bool:
        ended_ms = instance.ended_at_ms
        return ended_ms is not None and self._cloud.clock.now_ms() - ended_ms > 1000 * FORGET_S


def _order(given: Mapping[str, Any], key: Key) -> Order:
    region, name = text(given, "region_name"), given.get("name") or ""
    if region not in REGIONS:
        raise Refusal(Why.INVALID, f"Invalid region_name: {region}", what=region)
    if len(name) > NAME_CHARS:
        raise Refusal(Why.INVALID, f"name must be at most {NAME_CHARS} characters.", what="name")
    return Order(
        vendor=VENDOR,
        type=text(given, "instance_type_name"),
        region=region,
        name=name,
        tags={tag["key"]: tag["value"] for tag in given.get("tags") or ()},
        user_data=(given.get("user_data") or "").encode(),
        public_keys=(key.public_key,),
        native={"ssh_key_name": key.name},
    )


def _json(instance: Instance) -> dict[str, Any]:
    found = {
        "id": instance.id,
        "name": instance.name or None,
        "status": _status(instance),
        "ssh_key_names": [instance.order.native["ssh_key_name"]],
        "file_system_names": [],
        "region": _region(instance.region),
        "instance_type": _type_json(instance.type),
        "hostname": instance.address.replace(".", "-"),
        "is_reserved": False,
        "tags": [{"key": key, "value": value} for key, value in instance.tags.items()],
    }
    return {**found, "ip": instance.address} if instance.running_at_ms is not None else found


def _status(instance: Instance) -> str:
    match instance.state:
        case State.STOPPED:
            return "unhealthy"
        case State.ENDING:
            return "terminating"
        case State.ENDED:
            return "terminated"
    return "booting" if instance.booted_at_ms is None else "active"


def _type_json(kind: MachineType) -> dict[str, Any]:
    gpu = f"{kind.gpu_kind} ({GPUS[kind.gpu_kind]})"
    return {
        "name": kind.name,
        "description": f"{kind.gpu_count}x {gpu}",
        "gpu_description": gpu,
        "price_cents_per_hour": kind.price_microusd_per_hour // 10_000,
        "architecture": "arm64" if kind.gpu_kind == "GH200" else "x86_64",
        "specs": {
            "vcpus": kind.vcpus,
            "memory_gib": int(kind.memory_gib),
            "storage_gib": kind.disk_gib,
            "gpus": kind.gpu_count,
        },
    }


def _region(name: str) -> dict[str, str]:
    return {"name": name, "description": REGIONS[name]}


def _key_json(key: Key) -> dict[str, Any]:
    return {"id": key.id, "name": key.name, "public_key": key.public_key}
