"""Add, change and remove the backends of an organisation.

Checks the caller's permission, the name of the backend, and that no running job depends on it.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anygpu.backends import options as reading
from anygpu.backends import registry
from anygpu.backends.contract import AccountStatus, Backend, SupportsAccountCheck
from anygpu.backends.health import BackendCheck, RequestKind
from anygpu.backends.manager import BackendEntry, BackendManager, BackendSource
from anygpu.backends.options import ParsedOptions
from anygpu.backends.registry import BackendFactory
from anygpu.errors import Conflict, Forbidden, InvalidSpec, NotFound, Problem
from anygpu.events.offers import Offer
from anygpu.events.view import JobView
from anygpu.spec.sections import Gpu, Resources
from anygpu.spec.shorthand import STRATEGIES
from anygpu.store.vault.profiles import Profile, Profiles
from anygpu.store.vault.rotation import RotationResult
from anygpu.suggest import suggestion
from anygpu.tenancy.auth import Caller, Role

NAME_PATTERN = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
RESERVED = frozenset({"local", "kinds", "any", *STRATEGIES})
# These options set the address that the server calls, or name files on the server's disk.
OPERATOR_OPTIONS = ("ca_file", "endpoint", "identity", "kubeconfig_path", "profile")
OPEN_TIMEOUT_S = 5.0
CHECK_TIMEOUT_S = 20.0  # shorter than the timeout of clients
LiveJobs = Callable[[], Awaitable[Sequence[JobView]]]
Rotate = Callable[[bool], Awaitable[RotationResult]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileRequest:
    """A backend profile to add or change.

    In a change, a credential with the value None is removed, and a credential that is left out is kept.
    """

    name: str
    kind: str
    options: Mapping[str, Any]
    credentials: Mapping[str, str | None]
    replace: bool = False


class BackendProfiles:
    """Adds, lists, checks and removes the backends of the caller's organisation."""

    def __init__(
        self,
        profiles: Profiles,
        backends: BackendManager,
        live: LiveJobs,
        now_ms: Callable[[], int],
        rotate: Rotate,
    ) -> None:
        self._profiles = profiles
        self._backends = backends
        self._live_jobs = live
        self._now_ms = now_ms
        self._rotate = rotate

    def entries(self, caller: Caller) -> Sequence[BackendEntry]:
        return self._backends.entries(caller.scope.organisation)

    async def add(self, caller: Caller, request: ProfileRequest) -> BackendEntry:
        """Store a profile and open its backend. The returned entry shows whether the backend is open yet."""
        caller.require(Role.ADMIN)
        self._require_name(request.name)
        kind = await asyncio.to_thread(registry.find_kind, request.kind)
        registry.require_modules(kind)
        existing = await self._existing_profile(caller, request)
        given = reading.parse_options(
            kind.options, request.options, self._merged_credentials(request, existing)
        )
        _require_permission(caller, kind, given, existing)
        await self._require_same_machines(caller, request, existing)
        await self._profiles.put(
            caller.scope,
            request.name,
            kind=request.kind,
            options=given.stored,
            credentials=given.credentials,
            at_ms=self._now_ms(),
            replace=request.replace,
        )
        await self._backends.refresh()
        return await self._wait_until_open(request.name)

    async def remove(self, caller: Caller, name: str, *, force: bool = False) -> Sequence[JobView]:
        """Remove a backend, and return the jobs that still have machines of this backend.

        If there are such jobs, raise Conflict unless `force` is set.
        """
        caller.require(Role.ADMIN)
        entry = self._require_entry(caller, name)
        if entry.source is not BackendSource.PROFILE:
            raise Conflict(
                f"The backend {name!r} cannot be removed here: it is {SOURCE_DESCRIPTIONS[entry.source]}",
                hint=REMOVAL_HINTS[entry.source],
            )
        left = await self._jobs_on(name)
        if left and not force:
            raise Conflict(
                f"The backend {name!r} cannot be removed: it still runs {_describe_jobs(left)}",
                hint="Cancel these jobs, or wait until they end. `--force` removes the backend anyway, but then their "
                "machines may continue to cost money.",
                jobs=[view.id for view in left],
            )
        await self._profiles.delete(caller.scope, name)
        await self._backends.refresh()
        return left

    async def check(self, caller: Caller, name: str) -> BackendCheck:
        """Check the credentials of a backend and list its offers. The result is kept in its entry."""
        self._require_entry(caller, name)
        entry = await self._wait_until_open(name)
        if not entry.is_open:
            opening = "the server is still connecting to the backend; try again in a moment"
            return _failed_check(entry.reason or opening)
        check = await _check_open(entry.backend)
        entry.health.record_check(check, self._now_ms())
        return check

    async def rotate(self, caller: Caller, *, new_key: bool) -> RotationResult:
        """Encrypt all stored credentials and secrets again. With `new_key`, create a new key first and use it."""
        caller.require(Role.OPERATOR)
        return await self._rotate(new_key)

    def _require_entry(self, caller: Caller, name: str) -> BackendEntry:
        existing = {entry.name: entry for entry in self.entries(caller)}
        if name not in existing:
            raise NotFound(
                f"There is no backend with the name {name[:100]!r}",
                hint=suggestion(name, existing, "`anygpu backend ls` lists the backends."),
            )
        return existing[name]

    def _require_name(self, name: str) -> None:
        if not NAME_PATTERN.fullmatch(name):
            message = (
                "is not a valid name; use 1 to 63 lowercase letters, digits, '.', '_' and '-', "
                "starting with a letter or digit"
            )
            raise InvalidSpec([Problem("name", name[:100], message, source="body")])
        if name in RESERVED:
            raise InvalidSpec(
                [
                    Problem(
                        "name",
                        name,
                        f"{name!r} cannot be the name of a backend, because anygpu uses this name itself",
                        "choose another name",
                        "body",
                    )
                ]
            )

    async def _existing_profile(self, caller: Caller, request: ProfileRequest) -> Profile | None:
        """Return the profile that the request changes; None if the request adds a new one.

        Raise Conflict if the name belongs to a built-in backend or to one in the settings file.
        """
        entry = self._backends.entry(request.name)
        if entry is not None and entry.source is not BackendSource.PROFILE:
            raise Conflict(
                f"There is already a backend with the name {request.name!r}: it is "
                f"{SOURCE_DESCRIPTIONS[entry.source]}",
                hint="Choose another name.",
            )
        if not request.replace:
            return None
        try:
            return await self._profiles.get(caller.scope, request.name)
        except NotFound:
            return None

    def _merged_credentials(self, request: ProfileRequest, existing: Profile | None) -> dict[str, str]:
        given = {name: value for name, value in request.credentials.items() if value is not None}
        if existing is None or existing.kind != request.kind:
            return given
        left_out = {*existing.credential_names} - {*request.credentials}
        kept = self._profiles.credentials(existing) if left_out else {}
        return {name: kept[name] for name in left_out} | given

    async def _require_same_machines(
        self, caller: Caller, request: ProfileRequest, existing: Profile | None
    ) -> None:
        """Raise Conflict if jobs still have machines of this backend that the new profile could not manage.

        That is so if the machines belong to another organisation or to a backend of another kind.
        """
        left = await self._jobs_on(request.name)
        own = existing is not None or all(view.organisation == caller.scope.organisation for view in left)
        if left and (not own or (existing is not None and existing.kind != request.kind)):
            raise Conflict(
                f"The name {request.name!r} cannot be used now: an earlier backend of this name still runs jobs",
                hint="Choose another name, or wait until these jobs have ended.",
            )

    async def _jobs_on(self, name: str) -> list[JobView]:
        return [view for view in await self._live_jobs() if _uses_backend(view, name)]

    async def _wait_until_open(self, name: str) -> BackendEntry:
        entry = self._backends.entry(name)
        if entry is None:
            raise NotFound(
                f"The backend {name!r} was removed by another request at the same time. Add it again with `anygpu "
                "backend add`."
            )
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                await self._backends.wait_opened(entry)
        except TimeoutError:
            pass
        return entry


SOURCE_DESCRIPTIONS = {BackendSource.BUILT_IN: "built in", BackendSource.SETTINGS: "in the settings file"}
REMOVAL_HINTS = {
    BackendSource.BUILT_IN: "To disable it, set `local.enabled = false` in the settings.",
    BackendSource.SETTINGS: "Remove its table from the settings file and restart the server.",
}


def _require_permission(
    caller: Caller, kind: BackendFactory, given: ParsedOptions, existing: Profile | None
) -> None:
    """Raise Forbidden if the profile needs the operator's role and the caller does not have it.

    Only the operator may use the server's own credentials or change an option in OPERATOR_OPTIONS, such as
    the endpoint.
    """
    if caller.role.includes(Role.OPERATOR):
        return
    if kind.ambient(given.options):
        raise Forbidden(
            "This backend was added without credentials, so it would use the server's own; only the operator "
            "of the server may do that",
            hint="Give your own credentials with --credential, or ask the operator to add the backend.",
        )
    before = existing.options if existing else {}
    changed = [name for name in OPERATOR_OPTIONS if given.stored.get(name, "") != before.get(name, "")]
    if changed:
        raise Forbidden(
            f"Only the operator of the server may set the backend option {changed[0]!r}",
            hint="Leave the option out, or ask the operator to set it.",
        )


async def _check_open(backend: Backend) -> BackendCheck:
    try:
        async with asyncio.timeout(CHECK_TIMEOUT_S):
            account = await _check_account(backend)
            offers = await _list_offers(backend) if account.valid else ()
    except TimeoutError:
        return _failed_check(
            f"the backend did not answer within {CHECK_TIMEOUT_S:.0f} s; check its address and the network of the "
            "server"
        )
    except Exception as error:  # noqa: BLE001  any error of an adapter is the result of the check
        return _failed_check(str(error) or type(error).__name__)
    return BackendCheck(account=account, offers=offers)


def _failed_check(why: str) -> BackendCheck:
    account = AccountStatus(valid=False, message=why)
    return BackendCheck(account=account, failed_request=RequestKind.OFFERS)


async def _list_offers(backend: Backend) -> Sequence[Offer]:
    """Return all offers of a backend. Some backends list GPU offers only when a GPU is requested."""
    needs = Resources(), Resources(gpu=Gpu())
    return [*{offer.key: offer for need in needs for offer in await backend.offers(need)}.values()]


async def _check_account(backend: Backend) -> AccountStatus:
    if isinstance(backend, SupportsAccountCheck):
        return await backend.check()
    return AccountStatus(valid=True, message="needs no credentials")


def _uses_backend(view: JobView, name: str) -> bool:
    return any(attempt.offer.backend == name and not attempt.is_released for attempt in view.attempts)


def _describe_jobs(views: Sequence[JobView]) -> str:
    named = ", ".join(view.name or view.id for view in views[:5])
    more = f" and {len(views) - 5} more" if len(views) > 5 else ""
    return f"{len(views)} job{'s' if len(views) > 1 else ''}: {named}{more}"
