"""Open and close the backends: the built-in one, those in the settings file, and those in profiles."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from anygpu.backends import registry
from anygpu.backends.contract import Backend, LaunchRequest, Observation
from anygpu.backends.health import BackendHealth, RequestKind
from anygpu.backends.options import ParsedOptions, parse_options
from anygpu.backends.registry import BackendContext, BackendFactory
from anygpu.errors import BackendNotOpen
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Resources
from anygpu.store.vault.profiles import Profile, Profiles

ALL_ORGANISATIONS = "*"
ReportFailure = Callable[[str, Exception], None]


class BackendSource(StrEnum):
    """Where a backend is configured."""

    BUILT_IN = "built-in"
    SETTINGS = "settings"
    PROFILE = "profile"


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsBackend:
    """A backend from the settings file, with validated options."""

    name: str
    organisation: str
    kind: str
    parsed: ParsedOptions


@dataclass(slots=True, kw_only=True)
class BackendEntry:
    """One configured backend and its current state. A changed configuration creates a new entry."""

    name: str
    kind: str
    organisation: str
    shared_with: frozenset[str] = frozenset()  # other organisations whose jobs may use it; "*": all
    source: BackendSource
    options: dict[str, Any] = field(default_factory=dict)
    credential_names: tuple[str, ...] = ()
    profile: Profile | None = None
    backend: Backend
    reason: str = ""  # why the backend is not available
    health: BackendHealth = field(default_factory=BackendHealth)
    opening: asyncio.Task[None] | None = None
    predecessor_closing: asyncio.Task[None] | None = None  # the old backend closes before this one opens

    def is_visible_to(self, organisation: str) -> bool:
        """Return whether jobs of the organisation may use the backend."""
        return bool({organisation, ALL_ORGANISATIONS} & {self.organisation, *self.shared_with})

    @property
    def is_open(self) -> bool:
        return not isinstance(self.backend, UnavailableBackend)


class UnavailableBackend:
    """Placeholder for a backend that is not open. Every method raises an error with the reason.

    The error is not a LaunchError, because that would mean that no machine runs. A machine that was launched
    earlier may still run.
    """

    probe_every_s = 0.0

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self._reason = why

    async def offers(self, need: Resources) -> Sequence[Offer]:
        raise self._error()

    async def launch(self, launch: LaunchRequest, offer: Offer) -> Handle:
        raise self._error()

    async def probe(self, handle: Handle) -> Observation:
        raise self._error()

    async def terminate(self, handle: Handle) -> None:
        raise self._error()

    def _error(self) -> BackendNotOpen:
        return BackendNotOpen(
            f"The backend {self.name!r} cannot be used now: {self._reason}. `anygpu backend ls` shows its "
            "state; it is tried again automatically."
        )


class BackendManager(Mapping[str, Backend]):
    """All configured backends by name. Changes when a profile (stored configuration) changes, also on another server.

    Backends open in background tasks. Until a backend is open, or if it cannot be opened, its value is an
    `UnavailableBackend`.
    """

    def __init__(
        self,
        built_in: Sequence[BackendEntry],
        tables: Sequence[SettingsBackend],
        profiles: Profiles,
        context: BackendContext,
        *,
        on_open: Callable[[], None],
        report: ReportFailure,
        now_ms: Callable[[], int],
    ) -> None:
        self._profiles = profiles
        self._context = context
        self._on_open = on_open
        self._report = report
        self._now_ms = now_ms
        self._closing: set[asyncio.Task[None]] = set()
        self._refresh_lock = asyncio.Lock()  # profiles are applied in the order they were read
        self._entries = {entry.name: entry for entry in built_in}
        self._entries |= {
            backend_settings.name: _settings_entry(backend_settings) for backend_settings in tables
        }
        self._settings = {backend_settings.name: backend_settings for backend_settings in tables}

    def __getitem__(self, name: str) -> Backend:
        return self._entries[name].backend

    def __iter__(self) -> Iterator[str]:
        return iter([*self._entries])

    def __len__(self) -> int:
        return len(self._entries)

    def visible(self, name: str, organisation: str) -> bool:
        """Return whether jobs of `organisation` may use the backend."""
        entry = self._entries.get(name)
        return entry is not None and entry.is_visible_to(organisation)

    def entry(self, name: str) -> BackendEntry | None:
        return self._entries.get(name)

    def entries(self, organisation: str) -> list[BackendEntry]:
        return [each for name, each in sorted(self._entries.items()) if self.visible(name, organisation)]

    def record(self, backend: Backend, request: RequestKind, error: str) -> None:
        """Record how a request to a backend ended. An empty `error` means that it succeeded.

        Answers to earlier configurations are ignored, and so are the errors of a backend that is not open: its
        entry has the reason.
        """
        entry = self._entries.get(backend.name)
        if entry is not None and entry.backend is backend and entry.is_open:
            entry.health.record(request, error, self._now_ms())

    async def follow(self, every_s: float) -> None:
        """Read the profiles again every `every_s` seconds until cancelled, to find those that another server changed.

        Errors are reported, and the next round tries again.
        """
        while True:
            await asyncio.sleep(every_s)
            try:
                await self.refresh()
            except Exception as error:  # noqa: BLE001  a database that does not answer now will answer later
                self._report("backend profiles could not be read; will retry", error)

    async def refresh(self) -> None:
        """Read the profiles again, and apply the changes.

        New and changed backends, and those that could not be opened, start to open. Removed ones are closed.
        """
        async with self._refresh_lock:
            self._apply_profiles({profile.name: profile for profile in await self._profiles.all()})

    async def wait_opened(self, entry: BackendEntry) -> None:
        """Wait until the backend has opened or failed to open."""
        if entry.opening is not None:
            await asyncio.wait([entry.opening])

    async def close(self) -> None:
        entries, self._entries = self._entries, {}
        for entry in entries.values():
            self._remove(entry)
        while self._closing:
            await asyncio.wait(self._closing)

    def _apply_profiles(self, wanted: Mapping[str, Profile]) -> None:
        for name, entry in [*self._entries.items()]:
            if entry.source is BackendSource.PROFILE and name not in wanted:
                self._remove(entry)
        for profile in wanted.values():
            self._apply_profile(profile)
        for entry in [*self._entries.values()]:
            if not entry.is_open and entry.opening is None:
                entry.opening = asyncio.create_task(self._open(entry))

    def _apply_profile(self, profile: Profile) -> None:
        existing = self._entries.get(profile.name)
        if existing is None or (existing.source is BackendSource.PROFILE and existing.profile != profile):
            entry = _profile_entry(profile)
            entry.predecessor_closing = self._remove(existing) if existing is not None else None
            self._entries[profile.name] = entry
        elif existing.source is not BackendSource.PROFILE:
            existing.reason = (
                existing.reason
                or "the settings file has a backend of the same name, so the stored one is ignored"
            )

    def _remove(self, entry: BackendEntry) -> asyncio.Task[None]:
        self._entries.pop(entry.name, None)
        if entry.opening is not None:
            entry.opening.cancel()
        task = asyncio.create_task(self._close_entry(entry))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    async def _open(self, entry: BackendEntry) -> None:
        try:
            if entry.predecessor_closing is not None:
                await asyncio.wait([entry.predecessor_closing])
            kind = await asyncio.to_thread(
                registry.find_kind, entry.kind
            )  # vendor libraries are slow to import
            registry.require_modules(kind)
            context = replace(self._context, pins=self._context.pins / entry.name)
            entry.backend = await kind.open(entry.name, self._options(entry, kind), context)
            entry.reason = ""
            self._on_open()
        except Exception as error:  # noqa: BLE001  whatever an adapter raises must not close the others
            self._record_failure(entry, error)
        finally:
            entry.opening = None

    def _options(self, entry: BackendEntry, kind: BackendFactory) -> Any:
        if entry.profile is None:
            return self._settings[entry.name].parsed.options
        credentials = self._profiles.credentials(entry.profile)
        return parse_options(kind.options, entry.options, credentials).options

    def _record_failure(self, entry: BackendEntry, error: Exception) -> None:
        why = str(error) or type(error).__name__
        if why != entry.reason:
            self._report(f"backend {entry.name!r} cannot be opened; will retry", error)
        entry.reason, entry.backend = why, UnavailableBackend(entry.name, why)

    async def _close_entry(self, entry: BackendEntry) -> None:
        close = getattr(entry.backend, "close", None)
        if close is None or entry.source is BackendSource.BUILT_IN:
            return  # built-in backends are closed by their creator
        try:
            await close()
        except Exception as error:  # noqa: BLE001
            self._report(f"backend {entry.name!r} failed to close", error)


def built_in_entry(backend: Backend, organisation: str, shared_with: Iterable[str]) -> BackendEntry:
    return BackendEntry(
        name=backend.name,
        kind=backend.name,
        organisation=organisation,
        shared_with=frozenset(shared_with),
        source=BackendSource.BUILT_IN,
        backend=backend,
    )


def _settings_entry(backend_settings: SettingsBackend) -> BackendEntry:
    return BackendEntry(
        name=backend_settings.name,
        kind=backend_settings.kind,
        organisation=backend_settings.organisation,
        source=BackendSource.SETTINGS,
        options=backend_settings.parsed.stored,
        credential_names=tuple(sorted(backend_settings.parsed.credentials)),
        backend=UnavailableBackend(backend_settings.name, "it is being opened"),
    )


def _profile_entry(profile: Profile) -> BackendEntry:
    return BackendEntry(
        name=profile.name,
        kind=profile.kind,
        organisation=profile.organisation,
        source=BackendSource.PROFILE,
        options=profile.options,
        credential_names=profile.credential_names,
        profile=profile,
        backend=UnavailableBackend(profile.name, "it is being opened"),
    )
