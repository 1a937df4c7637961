"""Routes for backends: list, configure, check and remove them. Credentials are stored and never shown."""

from typing import Annotated

from fastapi import Depends, Path, Query

from anygpu.api.backends import (
    BackendCheckReport,
    BackendDetails,
    BackendHealth,
    BackendKindDetails,
    BackendKindList,
    BackendList,
    BackendOption,
    BackendProblem,
    BackendRequest,
    GpuOffer,
    RemovedBackend,
    RotationReport,
)
from anygpu.backends import options, registry
from anygpu.backends.health import BackendCheck, RequestKind
from anygpu.backends.manager import BackendEntry, BackendSource
from anygpu.events.offers import Offer
from anygpu.server.encoding import format_optional_time, format_time
from anygpu.server.http.route import JsonBody, api_router
from anygpu.server.services import CallerDep, ServicesDep
from anygpu.tenancy.auth import Caller
from anygpu.tenancy.backend_profiles import ProfileRequest

router = api_router("/api/v1/backends", tag="backends")

Name = Annotated[str, Path(min_length=1, max_length=200, examples=["lab"])]
BackendBody = Annotated[BackendRequest, Depends(JsonBody(BackendRequest))]


@router.get("", response_description="By name.")
async def list_backends(services: ServicesDep, caller: CallerDep) -> BackendList:
    """List the backends that jobs of this organisation can use."""
    return BackendList(
        backends=[_render_backend(entry, caller) for entry in services.backend_profiles.entries(caller)],
        allow_paid=services.allow_paid,
    )


@router.get("/kinds", response_description="By name.")
def list_backend_kinds(caller: CallerDep) -> BackendKindList:  # in a thread, because it imports every adapter
    """List the kinds of backends and their options."""
    kinds = [
        BackendKindDetails(
            name=kind.name,
            about=kind.about,
            options=[BackendOption(**option) for option in options.describe_options(kind.options)],
        )
        for kind in registry.usable_kinds()
    ]
    return BackendKindList(kinds=kinds)


@router.post("", status_code=201, response_description="Configured.")
async def add_backend(body: BackendBody, services: ServicesDep, caller: CallerDep) -> BackendDetails:
    """Configure a backend. With `replace`, change an existing one; credentials that are left out are kept."""
    request = ProfileRequest(
        name=body.name,
        kind=body.kind,
        options=body.options,
        credentials=body.credentials,
        replace=body.replace,
    )
    return _render_backend(await services.backend_profiles.add(caller, request), caller)


@router.post("/rotate", response_description="Encrypted with the newest key.")
async def rotate_credentials(
    services: ServicesDep, caller: CallerDep, new_key: Annotated[bool, Query()] = True
) -> RotationReport:
    """Encrypt every credential and secret of the server again, by default with a new key. For the operator only."""
    result = await services.backend_profiles.rotate(caller, new_key=new_key)
    return RotationReport(sealed=result.reencrypted, unopenable=result.failed)


@router.post("/{name}/check", response_description="Result of the check.")
async def check_backend(name: Name, services: ServicesDep, caller: CallerDep) -> BackendCheckReport:
    """Check the credentials of a backend, and count its offers."""
    return _render_check(name, await services.backend_profiles.check(caller, name))


@router.delete("/{name}", response_description="Removed.")
async def remove_backend(
    name: Name, services: ServicesDep, caller: CallerDep, force: Annotated[bool, Query()] = False
) -> RemovedBackend:
    """Remove a backend and its credentials. If jobs still have machines there, `force` is needed."""
    left = await services.backend_profiles.remove(caller, name, force=force)
    return RemovedBackend(name=name, removed=True, jobs=[view.id for view in left])


def _render_backend(entry: BackendEntry, caller: Caller) -> BackendDetails:
    profile = entry.profile
    return BackendDetails(
        name=entry.name,
        kind=entry.kind,
        source=str(entry.source),
        options=dict(entry.options),
        credentials=_credential_source(entry),
        credential_names=list(entry.credential_names),
        state="open" if entry.is_open else "opening" if entry.opening else "failed",
        reason=entry.reason,
        person=profile.person if profile else None,
        updated_at=format_time(profile.updated_at_ms) if profile else None,
        health=_render_health(entry, own=entry.organisation == caller.scope.organisation),
    )


def _render_health(entry: BackendEntry, *, own: bool) -> BackendHealth:
    """Return the health of a backend. Others who share it do not see failed launches, which are of single jobs."""
    health = entry.health
    return BackendHealth(
        answered_at=format_optional_time(health.answered_at_ms or None),
        checked_at=format_optional_time(health.checked_at_ms or None),
        check=_render_check(entry.name, health.check) if health.check else None,
        problems=[
            BackendProblem(request=str(each.request), message=each.message, at=format_time(each.at_ms))
            for each in health.problems
            if own or each.request is not RequestKind.LAUNCH
        ],
    )


def _credential_source(entry: BackendEntry) -> str:
    if entry.credential_names:
        return "vault" if entry.source is BackendSource.PROFILE else "settings"
    return "none" if entry.source is BackendSource.BUILT_IN else "ambient"


def _render_check(name: str, check: BackendCheck) -> BackendCheckReport:
    account, refused, cheapest = check.account, check.refused_offers, check.cheapest_gpu
    return BackendCheckReport(
        name=name,
        valid=account.valid,
        why=account.message,
        quota=account.quota,
        balance_microusd=account.balance_microusd,
        offers=len(check.offers) - len(refused),
        refused=len(refused),
        refused_why=refused[0].refused if refused else "",
        cheapest_gpu=_render_gpu_offer(cheapest) if cheapest else None,
    )


def _render_gpu_offer(offer: Offer) -> GpuOffer:
    return GpuOffer(
        name=offer.name,
        region=offer.region,
        gpu=offer.gpu_kind,
        gpus=offer.gpu_count,
        gpu_memory_gib=offer.gpu_memory_gib,
        interruptible=offer.interruptible,
        price_microusd_per_hour=offer.price_microusd_per_hour,
    )
