"""The HTTP endpoint of all simulated AWS services. The signature of a request names the service it is for."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from anygpu.cloudsim.apis.ec2 import images, instances, network, offers, resources, signature, wire
from anygpu.cloudsim.apis.ec2.account import AwsAccount, AwsRegion
from anygpu.cloudsim.apis.ec2.errors import DENIED, Ec2Error, as_ec2_error
from anygpu.cloudsim.apis.ec2.instance_types import VENDOR
from anygpu.cloudsim.apis.ec2.other_services import JSON_TARGETS, caller_identity
from anygpu.cloudsim.apis.ec2.wire import Fields
from anygpu.cloudsim.cloud import Cloud
from anygpu.cloudsim.errors import CloudError
from anygpu.cloudsim.http_listener import ORIGINAL_PATH

Action = Callable[[AwsRegion, Fields], Awaitable[Fields]]
ACTIONS: Mapping[str, Action] = {
    "RunInstances": instances.run_instances,
    "DescribeInstances": instances.describe_instances,
    "TerminateInstances": instances.terminate_instances,
    "GetConsoleOutput": instances.get_console_output,
    "DescribeImages": images.describe_images,
    "DescribeRegions": offers.describe_regions,
    "DescribeAvailabilityZones": offers.describe_availability_zones,
    "DescribeInstanceTypes": offers.describe_instance_types,
    "DescribeInstanceTypeOfferings": offers.describe_instance_type_offerings,
    "DescribeSpotPriceHistory": offers.describe_spot_price_history,
    "DescribeVpcs": network.describe_vpcs,
    "DescribeSubnets": network.describe_subnets,
    "CreateSecurityGroup": network.create_security_group,
    "AuthorizeSecurityGroupIngress": network.authorize_security_group_ingress,
    "DescribeSecurityGroups": network.describe_security_groups,
    "DeleteSecurityGroup": network.delete_security_group,
    "DescribeAddresses": network.describe_addresses,
    "AllocateAddress": network.allocate_address,
    "ReleaseAddress": network.release_address,
    "ImportKeyPair": resources.import_key_pair,
    "DescribeKeyPairs": resources.describe_key_pairs,
    "DeleteKeyPair": resources.delete_key_pair,
    "DescribeVolumes": resources.describe_volumes,
    "DeleteVolume": resources.delete_volume,
    "DescribeSpotInstanceRequests": resources.describe_spot_instance_requests,
    "CreateCapacityReservation": resources.create_capacity_reservation,
    "DescribeCapacityReservations": resources.describe_capacity_reservations,
    "DescribeReservedInstances": resources.describe_reserved_instances,
}

OPERATIONS = {"RunInstances": "launch", "DescribeInstances": "list", "TerminateInstances": "end"}
XML = "text/xml;charset=UTF-8"
JSON = "application/x-amz-json-1.1"


class AwsCaller(NamedTuple):
    """The key id, region and service of a signed request."""

    key_id: str
    region: str
    service: str


def app(cloud: Cloud) -> ASGIApp:
    account = AwsAccount(cloud)

    async def serve(request: Request) -> Response:
        caller = await _identify_caller(account, request)
        if caller.service in ("ec2", "sts"):
            return await _serve_query(account, request, caller)
        return await _serve_json(account, request, caller)

    return Starlette(routes=[Route("/{rest:path}", serve, methods=["POST"])])


async def _serve_query(account: AwsAccount, request: Request, caller: AwsCaller) -> Response:
    fields = wire.read_form(await request.body())
    action = str(fields.get("Action", ""))
    request_id = account.new_request_id()
    try:
        _authorize(account, action, caller)
        if caller.service == "sts":
            return Response(caller_identity(request_id), media_type=XML)
        content = await _run_action(account, action, caller.region, fields)
    except Ec2Error as failure:
        return Response(
            wire.error(failure.code, failure.message, request_id), status_code=failure.status, media_type=XML
        )
    return Response(wire.response(action, content, request_id), media_type=XML)


async def _run_action(account: AwsAccount, action: str, region: str, fields: wire.Fields) -> wire.Fields:
    handler: Callable[..., Awaitable[wire.Fields]] | None = ACTIONS.get(action)
    if handler is None:
        raise Ec2Error("InvalidAction", f"The action {action} is not one that the simulated EC2 supports.")
    if wire.is_true(fields.get("DryRun")):
        raise Ec2Error(
            "DryRunOperation",
            "The request would have succeeded, but its flag DryRun is set. Send it without the flag to "
            "execute it.",
        )
    try:
        return await handler(account.region(region), fields)
    except CloudError as refusal:
        raise as_ec2_error(refusal, spot="InstanceMarketOptions" in fields) from refusal


async def _serve_json(account: AwsAccount, request: Request, caller: AwsCaller) -> Response:
    target = request.headers.get("x-amz-target", "").rpartition(".")[2]
    try:
        _authorize(account, target, caller)
        if target not in JSON_TARGETS:
            raise Ec2Error(
                "UnknownOperationException",
                f"The operation {target} is not one that the simulated AWS supports.",
            )
        answer: dict[str, Any] = JSON_TARGETS[target](account.region(caller.region), await request.json())
    except Ec2Error as failure:
        code = "UnrecognizedClientException" if failure.code == "AuthFailure" else failure.code
        body = {"__type": code, "message": failure.message}
        return JSONResponse(body, status_code=400, media_type=JSON)
    return JSONResponse(answer, media_type=JSON)


def _authorize(account: AwsAccount, action: str, caller: AwsCaller) -> None:
    operations = (OPERATIONS[action], action) if action in OPERATIONS else (action,)
    try:
        account.cloud.authorize(VENDOR, *operations, credential=caller.key_id, region=caller.region)
    except CloudError as refusal:
        raise _for_service(as_ec2_error(refusal), caller) from refusal
    if caller.region not in VENDOR.regions:
        message = f"Credential should be scoped to a valid region, not '{caller.region}'. {DENIED}"
        raise Ec2Error("AuthFailure", message)


def _for_service(failure: Ec2Error, caller: AwsCaller) -> Ec2Error:
    """Return the error with the code that the called service uses: STS has another code than EC2 for an unknown key."""
    if failure.code == "AuthFailure" and caller.service == "sts":
        return Ec2Error(
            "InvalidClientTokenId",
            "The access key of the request does not exist. Use the one that `anygpu cloud-sim` printed.",
        )
    return failure


async def _identify_caller(account: AwsAccount, request: Request) -> AwsCaller:
    """Return who signed the request. The key id is empty if the signature is not valid."""
    signed = signature.parse_header(request.headers.get("authorization", ""))
    if signed is None:
        return AwsCaller("", "", "ec2")
    secret = VENDOR.credentials.get(signed.key_id)
    path, query = request.scope.get(ORIGINAL_PATH, request.url.path), request.url.query
    holds = secret is not None and signature.is_valid(
        signed, secret, request.method, path, query, request.headers, await request.body()
    )
    return AwsCaller(signed.key_id if holds else "", signed.region, signed.service)
