"""Backends: which there are, of which kinds there can be, whether they work. Credentials go in and never come out."""

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request

from anygpu.backends import options, registry
from anygpu.backends.configured import Entry, Source
from anygpu.errors import InvalidSpec, Problem
from anygpu.events.facts import Offer
from anygpu.server.encoding import format_time
from anygpu.server.http.bodies import JsonResponse, only_fields, read_object, text_field
from anygpu.server.http.openapi import answers, takes
from anygpu.server.services import CallerDep, ServicesDep
from anygpu.tenancy.backend_profiles import BackendCheck, ProfileRequest

router = APIRouter(prefix="/api/v1/backends", tags=["backends"])

Name = Annotated[str, Path(min_length=1, max_length=200, examples=["lab"])]
BACKEND = {
    "name": "lab",
    "kind": "ssh",
    "source": "profile",
    "options": {"max_machines": 2},
    "credentials": "vault",
    "credential_names": ["api_key"],
    "state": "open",
    "reason": "",
    "person": "me",
    "updated_at": "2026-01-05T10:00:00.000Z",
}
KIND = {
    "name": "lambda",
    "about": "Machines of Lambda",
    "options": [
        {
            "name": "api_key",
            "type": "a credential",
            "default": None,
            "required": False,
            "secret": True,
            "about": "key of the API",
        }
    ],
}
GPU = {
    "name": "gpu_1x_a10",
    "region": "us-west-1",
    "gpu": "A10",
    "gpus": 1,
    "gpu_memory_gib": 24,
    "interruptible": False,
    "price_microusd_per_hour": 750_000,
}
CHECK = {
    "name": "lab",
    "valid": True,
    "why": "",
    "quota": "",
    "balance_microusd": None,
    "offers": 12,
    "refused": 0,
    "refused_why": "",
    "cheapest_gpu": GPU,
}
WANTED = {"name": "lab", "kind": "ssh", "options": {}, "credentials": {}, "replace": False}
SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "kind"],
    "properties": {
        "name": {"type": "string"},
        "kind": {"type": "string"},
        "options": {"type": "object"},
        "credentials": {"type": "object", "additionalProperties": {"type": ["string", "null"]}},
        "replace": {"type": "boolean"},
    },
}


@router.get("", responses=answers("By name.", {"backends": [BACKEND]}))
async def list_backends(services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """The backends this organisation's jobs can run on. Credentials: vault, settings, ambient or none; never shown."""
    return JsonResponse(
        {"backends": [_render_backend(entry) for entry in services.backend_profiles.entries(caller)]}
    )


@router.get("/kinds", responses=answers("By name.", {"kinds": [KIND]}))
def list_backend_kinds(
    caller: CallerDep,
) -> JsonResponse:  # not async: adapters are imported here, in a thread
    """The kinds of backends there can be, and what each can be told."""
    found = [
        {"name": kind.name, "about": kind.about, "options": options.described(kind.options)}
        for kind in registry.every()
    ]
    return JsonResponse({"kinds": found})


@router.post(
    "",
    status_code=201,
    responses=answers("There from now on.", BACKEND, status=201),
    openapi_extra=takes(WANTED, schema=SCHEMA),
)
async def add_backend(request: Request, services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """Configure a backend. `replace` changes one that is there; credentials left out are then kept."""
    body = await read_object(request)
    only_fields(body, *WANTED)
    return JsonResponse(
        _render_backend(await services.backend_profiles.add(caller, _profile_request(body))), 201
    )


@router.post(
    "/rotate",
    responses=answers("Sealed with the newest key.", {"sealed": 3, "unopenable": 0}),
)
async def rotate_credentials(
    services: ServicesDep, caller: CallerDep, new_key: Annotated[bool, Query()] = True
) -> JsonResponse:
    """Seal every credential and secret of the server anew, by default with a new key. For the operator."""
    done = await services.backend_profiles.rotate(caller, new_key=new_key)
    return JsonResponse({"sealed": done.sealed, "unopenable": done.unopenable})


@router.post("/{name}/check", responses=answers("How it is.", CHECK))
async def check_backend(name: Name, services: ServicesDep, caller: CallerDep) -> JsonResponse:
    """Whether its credentials work and why not, what they allow, and what it offers."""
    return JsonResponse(_render_check(name, await services.backend_profiles.check(caller, name)))


@router.delete("/{name}", responses=answers("Gone.", {"name": "lab", "removed": True, "jobs": []}))
async def remove_backend(
    name: Name, services: ServicesDep, caller: CallerDep, force: Annotated[bool, Query()] = False
) -> JsonResponse:
    """Forget a backend and its credentials. While jobs have machines there this is refused, unless by `force`."""
    left = await services.backend_profiles.remove(caller, name, force=force)
    return JsonResponse({"name": name, "removed": True, "jobs": [view.id for view in left]})


def _profile_request(body: dict[str, Any]) -> ProfileRequest:
    replace = body.get("replace", False)
    if not isinstance(replace, bool):
        raise InvalidSpec([Problem("replace", None, "true or false is needed", source="body")])
    return ProfileRequest(
        name=text_field(body, "name"),
        kind=text_field(body, "kind"),
        options=_mapping(body, "options"),
        credentials=_mapping(body, "credentials"),
        replace=replace,
    )


def _mapping(body: dict[str, Any], name: str) -> dict[str, Any]:
    value = body.get(name, {})
    if not isinstance(value, dict):
        raise InvalidSpec([Problem(name, None, "a mapping is needed", source="body")])
    return value


def _render_backend(entry: Entry) -> dict[str, Any]:
    profile = entry.profile
    return {
        "name": entry.name,
        "kind": entry.kind,
        "source": str(entry.source),
        "options": entry.plain,
        "credentials": _credential_source(entry),
        "credential_names": list(entry.credential_names),
        "state": "open" if entry.is_open else "opening" if entry.opening else "failed",
        "reason": entry.reason,
        "person": profile.person if profile else None,
        "updated_at": format_time(profile.updated_at_ms) if profile else None,
    }


def _credential_source(entry: Entry) -> str:
    """Where they come from."""
    if entry.credential_names:
        return "vault" if entry.source is Source.PROFILE else "settings"
    return "none" if entry.source is Source.BUILT_IN else "ambient"


def _render_check(name: str, found: BackendCheck) -> dict[str, Any]:
    account, refused, cheapest = found.account, found.refused_offers, found.cheapest_gpu
    return {
        "name": name,
        "valid": account.valid,
        "why": account.why,
        "quota": account.quota,
        "balance_microusd": account.balance_microusd,
        "offers": len(found.offers) - len(refused),
        "refused": len(refused),
        "refused_why": refused[0].refused if refused else "",
        "cheapest_gpu": _render_gpu_offer(cheapest) if cheapest else None,
    }


def _render_gpu_offer(offer: Offer) -> dict[str, Any]:
    return {
        "name": offer.name,
        "region": offer.region,
        "gpu": offer.gpu_kind,
        "gpus": offer.gpu_count,
        "gpu_memory_gib": offer.gpu_memory_gib,
        "interruptible": offer.interruptible,
        "price_microusd_per_hour": offer.price_microusd_per_hour,
    }
