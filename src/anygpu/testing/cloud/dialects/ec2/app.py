"""One endpoint for every AWS service spoken here: the signature's scope says which one is meant."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from anygpu.testing.cloud.cloud import Cloud
from anygpu.testing.cloud.dialects.ec2 import wire
from anygpu.testing.cloud.dialects.ec2.account import Account
from anygpu.testing.cloud.dialects.ec2.actions import ACTIONS
from anygpu.testing.cloud.dialects.ec2.aside import JSON_TARGETS, caller_identity
from anygpu.testing.cloud.dialects.ec2.failure import DENIED, Failure, in_ec2s_words
from anygpu.testing.cloud.dialects.ec2.goods import VENDOR
from anygpu.testing.cloud.refusals import Refusal

SCOPE = re.compile(r"Credential=([^/]+)/\d{8}/([^/]+)/([^/]+)/aws4_request")
NEUTRAL = {"RunInstances": "launch", "DescribeInstances": "list", "TerminateInstances": "end"}
XML = "text/xml;charset=UTF-8"
JSON = "application/x-amz-json-1.1"


def app(cloud: Cloud) -> ASGIApp:
    account = Account(cloud)

    async def serve(request: Request) -> Response:
        key_id, region, service = _scope(request)
        if service in ("ec2", "sts"):
            return await _query(account, request, key_id, region, service)
        return await _json(account, request, key_id, region)

    return Starlette(routes=[Route("/{rest:path}", serve, methods=["POST"])])


async def _query(account: Account, request: Request, key_id: str, region: str, service: str) -> Response:
    fields = wire.read_form(await request.body())
    action = str(fields.get("Action", ""))
    request_id = account.request_id()
    try:
        _admit(account, action, key_id, region, service)
        if service == "sts":
            return Response(caller_identity(request_id), media_type=XML)
        content = await _act(account, action, region, fields)
    except Failure as failure:
        return Response(
            wire.error(failure.code, failure.message, request_id), status_code=failure.status, media_type=XML
        )
    return Response(wire.answer(action, content, request_id), media_type=XML)


async def _act(account: Account, action: str, region: str, fields: wire.Fields) -> wire.Fields:
    handler: Callable[..., Awaitable[wire.Fields]] | None = ACTIONS.get(action)
    if handler is None:
        raise Failure("InvalidAction", f"The action {action} is not valid for this web service.")
    if wire.true(fields.get("DryRun")):
        raise Failure("DryRunOperation", "Request would have succeeded, but DryRun flag is set.")
    try:
        return await handler(account.at(region), fields)
    except Refusal as refusal:
        raise in_ec2s_words(refusal, spot="InstanceMarketOptions" in fields) from refusal


async def _json(account: Account, request: Request, key_id: str, region: str) -> Response:
    target = request.headers.get("x-amz-target", "").rpartition(".")[2]
    try:
        _admit(account, target, key_id, region, "json")
        if target not in JSON_TARGETS:
            raise Failure("UnknownOperationException", f"There is no operation {target} here.")
        answer: dict[str, Any] = JSON_TARGETS[target](account.at(region), await request.json())
    except Failure as failure:
        code = "UnrecognizedClientException" if failure.code == "AuthFailure" else failure.code
        body = {"__type": code, "message": failure.message}
        return JSONResponse(body, status_code=400, media_type=JSON)
    return JSONResponse(answer, media_type=JSON)


def _admit(account: Account, action: str, key_id: str, region: str, service: str) -> None:
    operations = (NEUTRAL[action], action) if action in NEUTRAL else (action,)
    try:
        account.cloud.admit(VENDOR, *operations, credential=key_id, region=region)
    except Refusal as refusal:
        failure = in_ec2s_words(refusal)
        if failure.code == "AuthFailure" and service == "sts":
            message = "The security token included in the request is invalid."
            raise Failure("InvalidClientTokenId", message) from refusal
        raise failure from refusal
    if region not in VENDOR.regions:
        raise Failure(
            "AuthFailure", f"Credential should be scoped to a valid region, not '{region}'. {DENIED}"
        )


def _scope(request: Request) -> tuple[str, str, str]:
    """Access key, region and service of the signature; all empty when there is none."""
    found = SCOPE.search(request.headers.get("authorization", ""))
    return (found[1], found[2], found[3]) if found else ("", "", "ec2")
