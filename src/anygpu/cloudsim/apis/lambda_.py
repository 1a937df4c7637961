"""Lambda Cloud's API v1 (docs-api.lambda.ai).

Launches are not idempotent, and instance names are not unique.
"""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Router
from starlette.types import ASGIApp

from anygpu.cloudsim.apis.json_api import JsonApi, bearer_or_basic_key, json_body, new_key_pair, required_text
from anygpu.cloudsim.cloud import Cloud
from anygpu.cloudsim.errors import CloudError, ErrorReason
from anygpu.cloudsim.instance import Instance, InstanceOrder, InstanceState
from anygpu.cloudsim.resources import LoginKey
from anygpu.cloudsim.vendor import SimBillingRule, SimMachineType, SimVendor

REGIONS = {"us-east-1": "Virginia, USA", "us-south-1": "Texas, USA", "us-west-1": "California, USA"}
GPUS = {
    "RTX 6000": "24 GB",
    "A10": "24 GB PCIe",
    "A100": "40 GB SXM4",
    "H100": "80 GB SXM5",
    "GH200": "96 GB",
}
LAUNCH_EVERY_S = 10  # docs.lambda.ai, "Are API requests rate-limited?"
FORGET_S = 60  # terminated instances are listed this long
NAME_CHARS = 64


def _type(
    name: str, gpu: str, count: int, cents: int, vcpus: int, memory_gib: int, disk_gib: int
) -> SimMachineType:
    return SimMachineType(
        name=name,
        price_microusd_per_hour=cents * 10_000,
        vcpus=vcpus,
        memory_gib=memory_gib,
        gpu_kind=gpu,
        gpu_count=count,
        gpu_memory_gib=float(GPUS[gpu].split()[0]),
        disk_gib=disk_gib,
    )


VENDOR = SimVendor(
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
    billing_rule=SimBillingRule(step_s=60),
    on_halt="off",  # an instance that shuts itself down is billed until it is terminated
    credentials={"sim-lambda-key": ""},
)

# Lambda's own codes and texts, from its OpenAPI document (schemas ApiError…).
ERRORS: Mapping[ErrorReason, tuple[int, str, str]] = {
    ErrorReason.BAD_CREDENTIALS: (401, "global/invalid-api-key", "API key was invalid, expired, or deleted."),
    ErrorReason.NO_CAPACITY: (
        400,
        "instance-operations/launch/insufficient-capacity",
        "Not enough capacity to fulfill launch request.",
    ),
    ErrorReason.QUOTA: (400, "global/quota-exceeded", "Quota exceeded."),
    ErrorReason.NOT_FOUND: (404, "global/object-does-not-exist", ""),
    ErrorReason.CONFLICT: (400, "global/duplicate", ""),
    ErrorReason.INVALID: (400, "global/invalid-parameters", ""),
}
SUGGESTIONS = {
    ErrorReason.BAD_CREDENTIALS: "Check your API key or create a new one, then try again.",
    ErrorReason.QUOTA: "Contact Support to increase your quota.",
}


def error_response(refusal: CloudError) -> Response:
    if (
        refusal.reason is ErrorReason.THROTTLED
    ):  # Lambda's gateway enforces the limit, and its response is not JSON
        return PlainTextResponse("error code: 1015", 429, {"Retry-After": str(LAUNCH_EVERY_S)})
    status, code, message = ERRORS.get(refusal.reason, ERRORS[ErrorReason.INVALID])
    error = {"code": code, "message": message or refusal.message}
    if suggestion := SUGGESTIONS.get(refusal.reason):
        error["suggestion"] = suggestion
    return JSONResponse({"error": error}, status)


def app(cloud: Cloud) -> ASGIApp:
    return SimulatedLambda(cloud).router()


class SimulatedLambda:
    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._last_launch_s: dict[str, float] = {}

    def router(self) -> Router:
        route = JsonApi(self._cloud, VENDOR, error_response, bearer_or_basic_key).route
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
                machine_type.name: {
                    "instance_type": _type_json(machine_type),
                    "regions_with_capacity_available": [
                        _region_json(name)
                        for name in REGIONS
                        if self._cloud.has_capacity(VENDOR, machine_type, name, spot=False)
                    ],
                }
                for machine_type in VENDOR.types
            }
        }

    async def list(self, _: Request) -> Any:
        return {
            "data": [_instance_json(each) for each in self._cloud.list_instances(VENDOR, forget_s=FORGET_S)]
        }

    async def get(self, request: Request) -> Any:
        return {"data": _instance_json(self._find(request.path_params["id"]))}

    async def launch(self, request: Request) -> Any:
        self._limit_rate(bearer_or_basic_key(request))
        body = await json_body(request)
        key = self._key(body.get("ssh_key_names"))
        instance = self._cloud.launch(_order(body, key), id=self._cloud.new_id("", 32))
        return {"data": {"instance_ids": [instance.id]}}

    async def terminate(self, request: Request) -> Any:
        ids = (await json_body(request)).get("instance_ids")
        if not isinstance(ids, list) or not ids:
            raise CloudError(
                ErrorReason.INVALID,
                "instance_ids is empty or not a list. Send the id of at least one instance.",
            )
        instances = [self._find(id) for id in ids]  # check all ids before terminating any
        for instance in instances:
            self._cloud.terminate(instance)
        return {"data": {"terminated_instances": [_instance_json(each) for each in instances]}}

    async def keys(self, _: Request) -> Any:
        return {"data": [_key_json(key) for key in self._cloud.keys.all(VENDOR)]}

    async def add_key(self, request: Request) -> Any:
        body = await json_body(request)
        name = required_text(body, "name")
        private, public = ("", body["public_key"]) if body.get("public_key") else new_key_pair()
        made = _key_json(self._cloud.keys.add(VENDOR, "", name, public))
        return {"data": {**made, "private_key": private} if private else made}

    async def remove_key(self, request: Request) -> Any:
        self._cloud.keys.remove(VENDOR, "", request.path_params["id"])
        return {"data": {}}

    def _limit_rate(self, api_key: str) -> None:
        now_s = self._cloud.clock.now_s()
        if now_s - self._last_launch_s.get(api_key, float("-inf")) < LAUNCH_EVERY_S:
            raise CloudError(
                ErrorReason.THROTTLED, "Too many launches in a short time. Wait a few seconds and try again."
            )
        self._last_launch_s[api_key] = now_s

    def _key(self, names: Any) -> LoginKey:
        if not isinstance(names, list) or len(names) != 1:
            raise CloudError(
                ErrorReason.INVALID,
                "ssh_key_names does not have exactly one name. Send the name of one SSH key.",
            )
        try:
            return self._cloud.keys.find(VENDOR, "", str(names[0]))
        except CloudError as refusal:
            raise CloudError(
                ErrorReason.INVALID, f"Specified SSH key does not exist: {names[0]}. Add the key first."
            ) from refusal

    def _find(self, id: str) -> Instance:
        instance = self._cloud.instances.get(id)
        if instance is None or instance.vendor is not VENDOR or self._is_forgotten(instance):
            raise CloudError(
                ErrorReason.NOT_FOUND,
                "The instance does not exist. List the instances for their ids.",
                subject=id,
            )
        return instance

    def _is_forgotten(self, instance: Instance) -> bool:
        ended_ms = instance.ended_at_ms
        return ended_ms is not None and self._cloud.clock.now_ms() - ended_ms > 1000 * FORGET_S


def _order(body: Mapping[str, Any], key: LoginKey) -> InstanceOrder:
    region, name = required_text(body, "region_name"), body.get("name") or ""
    if region not in REGIONS:
        raise CloudError(
            ErrorReason.INVALID,
            f"Invalid region_name: {region}. List the instance types for the names of their regions.",
            subject=region,
        )
    if len(name) > NAME_CHARS:
        raise CloudError(
            ErrorReason.INVALID,
            f"The name is too long. Send at most {NAME_CHARS} characters.",
            subject="name",
        )
    return InstanceOrder(
        vendor=VENDOR,
        type=required_text(body, "instance_type_name"),
        region=region,
        name=name,
        tags={tag["key"]: tag["value"] for tag in body.get("tags") or ()},
        user_data=(body.get("user_data") or "").encode(),
        public_keys=(key.public_key,),
        native={"ssh_key_name": key.name},
    )


def _instance_json(instance: Instance) -> dict[str, Any]:
    fields = {
        "id": instance.id,
        "name": instance.name or None,
        "status": _status(instance),
        "ssh_key_names": [instance.order.native["ssh_key_name"]],
        "file_system_names": [],
        "region": _region_json(instance.region),
        "instance_type": _type_json(instance.type),
        "hostname": instance.address.replace(".", "-"),
        "is_reserved": False,
        "tags": [{"key": key, "value": value} for key, value in instance.tags.items()],
    }
    return {**fields, "ip": instance.address} if instance.running_at_ms is not None else fields


def _status(instance: Instance) -> str:
    match instance.state:
        case InstanceState.STOPPED:
            return "unhealthy"
        case InstanceState.ENDING:
            return "terminating"
        case InstanceState.ENDED:
            return "terminated"
    return "booting" if instance.booted_at_ms is None else "active"


def _type_json(machine_type: SimMachineType) -> dict[str, Any]:
    gpu = f"{machine_type.gpu_kind} ({GPUS[machine_type.gpu_kind]})"
    return {
        "name": machine_type.name,
        "description": f"{machine_type.gpu_count}x {gpu}",
        "gpu_description": gpu,
        "price_cents_per_hour": machine_type.price_microusd_per_hour // 10_000,
        "architecture": "arm64" if machine_type.gpu_kind == "GH200" else "x86_64",
        "specs": {
            "vcpus": machine_type.vcpus,
            "memory_gib": int(machine_type.memory_gib),
            "storage_gib": machine_type.disk_gib,
            "gpus": machine_type.gpu_count,
        },
    }


def _region_json(name: str) -> dict[str, str]:
    return {"name": name, "description": REGIONS[name]}


def _key_json(key: LoginKey) -> dict[str, Any]:
    return {"id": key.id, "name": key.name, "public_key": key.public_key}
