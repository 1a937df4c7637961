"""Browsers: a one-time link becomes an HttpOnly cookie. No token is ever in a URL or in a script."""

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from anygpu.server.http.bodies import JsonResponse
from anygpu.server.http.middleware import SESSION_COOKIE
from anygpu.server.http.openapi import PROBLEMS, answers, nothing
from anygpu.server.services import CallerDep, ServicesDep
from anygpu.tenancy.auth import LOGIN_LINK_S, SESSION_S

router = APIRouter(tags=["login"])

WHO = {
    "organisation": "local",
    "project": "default",
    "person": "me",
    "role": "admin",
    "server_version": "0.1.0",
    "agent_url": "http://127.0.0.1:41234",
}


INDEX = {
    "jobs": "/api/v1/training",
    "machines": "/api/v1/machines",
    "gpus": "/api/v1/monitoring/gpu",
    "who": "/api/v1/whoami",
    "api": "/api/v1/openapi.json",
}


@router.get("/", responses=answers("Paths.", INDEX))
async def get_index(caller: CallerDep) -> JsonResponse:
    """Where a login link leads: what can be looked at here."""
    return JsonResponse(INDEX)


@router.get("/api/v1/whoami", responses=answers("You.", WHO))
async def get_identity(services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """Whose token this is, and what server answers."""
    scope = caller.scope
    return JsonResponse(
        {
            "organisation": scope.organisation,
            "project": scope.project,
            "person": scope.person,
            "role": str(caller.role),
            "server_version": services.version,
            "agent_url": services.agent_url,
        }
    )


@router.post(
    "/api/v1/login/links",
    status_code=201,
    responses=answers(
        "Open it within a minute.", {"url": "http://127.0.0.1:7791/login/…", "expires_s": 60}, status=201
    ),
)
async def create_login_link(request: Request, services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """A link that logs one browser in, once."""
    code = await services.authenticator.create_login_code(caller)
    base = services.public_url or str(request.base_url)
    return JsonResponse({"url": f"{base.rstrip('/')}/login/{code}", "expires_s": LOGIN_LINK_S}, 201)


@router.get(
    "/login/{code}",
    status_code=303,
    responses={303: {"description": "Logged in; the cookie is set."}, **PROBLEMS},
    response_class=RedirectResponse,
)
async def log_in(code: str, request: Request, services: ServicesDep) -> Response:
    """Use a login link up."""
    session = await services.authenticator.redeem_login_code(code)
    answer = RedirectResponse("/", 303, {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})
    secure = (services.public_url or str(request.base_url)).startswith("https://")
    answer.set_cookie(
        SESSION_COOKIE,
        session,
        max_age=int(SESSION_S),
        httponly=True,
        samesite="strict",
        secure=secure,
        path="/",
    )
    return answer


@router.post("/api/v1/logout", status_code=204, responses=nothing("Logged out."), response_class=Response)
async def log_out(services: ServicesDep, caller: CallerDep) -> Response:
    """End this browser session. A token is not ended by it."""
    if caller.by_cookie:
        await services.authenticator.revoke_token(caller.scope, caller.token_id)
    answer = Response(None, 204)
    answer.delete_cookie(SESSION_COOKIE, path="/", httponly=True, samesite="strict")
    return answer
