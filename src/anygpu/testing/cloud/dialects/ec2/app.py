"""One endpoint for every AWS service spoken here: the signature's scope says which one is meant."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from anygpu.testing.cloud.cloud import Cloud
from anygpu.testing.cloud.dialects.ec2 import signature, wire
from anygpu.testing.cloud.dialects.ec2.account import Account
from anygpu.testing.cloud.dialects.ec2.actions import ACTIONS
from anygpu.testing.cloud.dialects.ec2.aside import JSON_TARGETS, caller_identity
from anygpu.testing.cloud.dialects.ec2.failure import DENIED, Failure, in_ec2s_words
from anygpu.testing.cloud.dialects.ec2.goods import VENDOR
from anygpu.testing.cloud.edge import FULL
from anygpu.testing.cloud.refusals import Refusal

NEUTRAL = {"RunInstances": "launch", "DescribeInstances": "list", "TerminateInstances": "end"}
XML = "text/xml;charset=UTF-8"
JSON = "application/x-amz-json-1.1"


class Caller(NamedTuple):
    """Who calls which service in which region."""

    key_id: str
    region: str
    service: str


def app(cloud: Cloud) -> ASGIApp:
    account = Account(cloud)

    async def serve(request: Request) -> Response:
        caller = await _caller(account, request)
        if caller.service in ("ec2", "sts"):
            return await _query(account, request, caller)
        return await _json(account, request, caller)

    return Starlette(routes=[Route("/{rest:path}", serve, methods=["POST"])])


async def _query(account: Account, request: Request, caller: Caller) -> Response:
    fields = wire.read_form(await request.body())
    action = str(fields.get("Action", ""))
    request_id = account.request_id()
    try:
        _admit(account, action, caller)
        if caller.service == "sts":
            return Response(caller_identity(request_id), media_type=XML)
        content = await _act(account, action, caller.region, fields)
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


async def _json(account: Account, request: Request, caller: Caller) -> Response:
    target = request.headers.get("x-amz-target", "").rpartition(".")[2]
    try:
        _admit(account, target, caller)
        if target not in JSON_TARGETS:
            raise Failure("UnknownOperationException", f"There is no operation {target} here.")
        answer: dict[str, Any] = JSON_TARGETS[target](account.at(caller.region), await request.json())
    except Failure as failure:
        code = "UnrecognizedClientException" if failure.code == "AuthFailure" else failure.code
        body = {"__type": code, "message": failure.message}
        return JSONResponse(body, status_code=400, media_type=JSON)
    return JSONResponse(answer, media_type=JSON)


def _admit(account: Account, action: str, caller: Caller) -> None:
    operations = (NEUTRAL[action], action) if action in NEUTRAL else (action,)
    try:
        account.cloud.admit(VENDOR, *operations, credential=caller.key_id, region=caller.region)
    except Refusal as refusal:
        raise _denied(in_ec2s_words(refusal), caller) from refusal
    if caller.region not in VENDOR.regions:
        message = f"Credential should be scoped to a valid region, not '{caller.region}'. {DENIED}"
        raise Failure("AuthFailure", message)


def _denied(failure: Failure, caller: Caller) -> Failure:
    """STS has its own words for a key it does not know."""
    if failure.code == "AuthFailure" and caller.service == "sts":
        return Failure("InvalidClientTokenId", "The security token included in the request is invalid.")
    return failure


async def _caller(account: Account, request: Request) -> Caller:
    """Whoever signed; an empty key id when the signature does not hold."""
    signed = signature.read(request.headers.get("authorization", ""))
    if signed is None:
        return Caller("", "", "ec2")
    secret = account.cloud.known_credentials(VENDOR).get(signed.key_id)
    path, query = request.scope.get(FULL, request.url.path), request.url.query
    holds = secret is not None and signature.fits(
        signed, secret, request.method, path, query, request.headers, await request.body()
    )
    return Caller(signed.key_id if holds else "", signed.region, signed.service)
