"""Browsers: a one-time link becomes an HttpOnly cookie. No token is ever in a URL or in a script."""

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from anygpu.server.bodies import Json
from anygpu.server.documented import PROBLEMS, answers, nothing
from anygpu.server.gate import COOKIE
from anygpu.server.services import Asking, Served
from anygpu.tenancy.access import LINK_S, SESSION_S

router = APIRouter(tags=["login"])

WHO = {
    "organisation": "local",
    "project": "default",
    "person": "me",
    "role": "admin",
    "server_version": "0.1.0",
    "agent_url": "http://127.0.0.1:41234",
}


HERE = {
    "jobs": "/api/v1/training",
    "machines": "/api/v1/machines",
    "gpus": "/api/v1/monitoring/gpu",
    "who": "/api/v1/whoami",
    "api": "/api/v1/openapi.json",
}


@router.get("/", responses=answers("Paths.", HERE))
async def here(asking: Asking) -> Json:
    """Where a login link leads: what can be looked at here."""
    return Json(HERE)


@router.get("/api/v1/whoami", responses=answers("You.", WHO))
async def whoami(served: Served, asking: Asking) -> Json:
    """Whose token this is, and what server answers."""
    scope = asking.scope
    return Json(
        {
            "organisation": scope.organisation,
            "project": scope.project,
            "person": scope.person,
            "role": str(asking.role),
            "server_version": served.version,
            "agent_url": served.agent_url,
        }
    )


@router.post(
    "/api/v1/login/links",
    status_code=201,
    responses=answers(
        "Open it within a minute.", {"url": "http://127.0.0.1:7791/login/…", "expires_s": 60}, status=201
    ),
)
async def link(request: Request, served: Served, asking: Asking) -> Json:
    """A link that logs one browser in, once."""
    code = await served.access.link(asking)
    base = served.public_url or str(request.base_url)
    return Json({"url": f"{base.rstrip('/')}/login/{code}", "expires_s": LINK_S}, 201)


@router.get(
    "/login/{code}",
    status_code=303,
    responses={303: {"description": "Logged in; the cookie is set."}, **PROBLEMS},
    response_class=RedirectResponse,
)
async def login(code: str, request: Request, served: Served) -> Response:
    """Use a login link up."""
    session = await served.access.redeem(code)
    answer = RedirectResponse("/", 303, {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})
    secure = (served.public_url or str(request.base_url)).startswith("https://")
    answer.set_cookie(
        COOKIE, session, max_age=int(SESSION_S), httponly=True, samesite="strict", secure=secure, path="/"
    )
    return answer


@router.post("/api/v1/logout", status_code=204, responses=nothing("Logged out."), response_class=Response)
async def logout(served: Served, asking: Asking) -> Response:
    """End this browser session. A token is not ended by it."""
    if asking.by_cookie:
        await served.access.revoke(asking.scope, asking.token_id)
    answer = Response(None, 204)
    answer.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")
    return answer
