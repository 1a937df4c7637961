"""Browser login: a one-time link sets an HttpOnly cookie, so that no token appears in a URL or script."""

from typing import Annotated

from fastapi import Depends, Query, Request
from starlette.responses import RedirectResponse, Response

from anygpu.api.access import ApiIndex, CallerIdentity, LoginLink, LoginLinkRequest
from anygpu.errors import Unauthorized
from anygpu.server.http.middleware import SESSION_COOKIE
from anygpu.server.http.route import JsonBody, api_router
from anygpu.server.http.web_app import accepts_html, failed_login_page, own_path
from anygpu.server.services import CallerDep, ServicesDep
from anygpu.tenancy.auth import SESSION_S

router = api_router(tag="login")


@router.get("/", response_description="Paths.")
async def get_index(caller: CallerDep) -> ApiIndex:
    """List the main paths of the API. A browser gets the web app instead."""
    return ApiIndex(
        jobs="/api/v1/training",
        machines="/api/v1/machines",
        gpus="/api/v1/monitoring/gpu",
        who="/api/v1/whoami",
        api="/api/v1/openapi.json",
    )


@router.get("/api/v1/whoami", response_description="The caller.")
async def get_identity(services: ServicesDep, caller: CallerDep) -> CallerIdentity:
    """Show the owner and role of the token, and the version of the server."""
    return CallerIdentity(
        organisation=caller.scope.organisation,
        project=caller.scope.project,
        person=caller.scope.person,
        role=str(caller.role),
        server_version=services.version,
        agent_url=services.agent_url,
    )


@router.post("/api/v1/login/links", status_code=201, response_description="Open it before it expires.")
async def create_login_link(
    request: Request,
    services: ServicesDep,
    caller: CallerDep,
    wanted: Annotated[LoginLinkRequest, Depends(JsonBody(LoginLinkRequest, required=False))],
) -> LoginLink:
    """Create a link that logs in one browser, once. Append `?next=/jobs` to open that page of the web app."""
    code = await services.authenticator.create_login_code(caller, life_s=wanted.expires_s)
    base = services.public_url or str(request.base_url)
    return LoginLink(url=f"{base.rstrip('/')}/login/{code}", expires_s=wanted.expires_s)


@router.get(
    "/login/{code}",
    status_code=303,
    response_description="Logged in; the cookie is set.",
    response_class=RedirectResponse,
)
async def log_in(
    code: str,
    request: Request,
    services: ServicesDep,
    next_page: str = Query(default="/", alias="next", description="Page of the web app to open."),
) -> Response:
    """Log in a browser with a login link. Each link works once.

    If `next` is not a page of the web app, the start page is opened.
    """
    try:
        session = await services.authenticator.redeem_login_code(code)
    except Unauthorized:
        if accepts_html(request.scope):
            return failed_login_page("This login link was used before or has expired.")
        raise
    headers = {"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"}
    response = RedirectResponse(own_path(next_page), 303, headers)
    secure = (services.public_url or str(request.base_url)).startswith("https://")
    response.set_cookie(
        SESSION_COOKIE,
        session,
        max_age=int(SESSION_S),
        httponly=True,
        samesite="strict",
        secure=secure,
        path="/",
    )
    return response


@router.post("/api/v1/logout", status_code=204, response_description="Logged out.", response_class=Response)
async def log_out(services: ServicesDep, caller: CallerDep) -> Response:
    """End this browser session. If the request uses a token, the token stays valid."""
    if caller.by_cookie:
        await services.authenticator.end_session(caller)
    response = Response(None, 204)
    response.delete_cookie(SESSION_COOKIE, path="/", httponly=True, samesite="strict")
    return response
