"""The backends there are now: built in, from the settings file, and configured by organisations while we run."""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from anygpu.backends import options as reading
from anygpu.backends import registry
from anygpu.backends.contract import Backend, Launch, Observation
from anygpu.backends.registry import Around, Kind
from anygpu.errors import BackendNotOpen
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Resources
from anygpu.store.vault.profiles import Profile, Profiles

EVERYBODY = "*"
Report = Callable[[str, Exception], None]


class Source(StrEnum):
    """Who says that a backend is there."""

    BUILT_IN = "built-in"
    SETTINGS = "settings"
    PROFILE = "profile"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A backend of the settings file, read and found valid."""

    name: str
    organisation: str
    kind: str
    given: reading.Given


@dataclass(slots=True, kw_only=True)
class Entry:
    """One backend as it is now. What it runs on changes; what it was configured as does not."""

    name: str
    kind: str
    organisation: str
    source: Source
    plain: dict[str, Any] = field(default_factory=dict)
    credential_names: tuple[str, ...] = ()
    profile: Profile | None = None
    backend: Backend
    reason: str = ""  # why it is not open
    opening: asyncio.Task[None] | None = None
    after: asyncio.Task[None] | None = None  # what it was before closes first: two must not hold one machine

    @property
    def is_open(self) -> bool:
        return not isinstance(self.backend, NotOpen)


class NotOpen:
    """Stands where a backend could not be opened, and says why to whoever asks.

    It raises nothing that would mean "certainly not launched": a machine may run from before.
    """

    probe_every_s = 0.0

    def __init__(self, name: str, why: str) -> None:
        self.name = name
        self._why = why

    async def offers(self, need: Resources) -> Sequence[Offer]:
        raise self._error()

    async def launch(self, launch: Launch, offer: Offer) -> Handle:
        raise self._error()

    async def probe(self, handle: Handle) -> Observation:
        raise self._error()

    async def terminate(self, handle: Handle) -> None:
        raise self._error()

    def _error(self) -> BackendNotOpen:
        return BackendNotOpen(f"backend {self.name!r} is not open: {self._why}")


class Backends(Mapping[str, Backend]):
    """Follows the profiles: one that is added, changed or removed here or by another server is so at once here.

    Opening goes on beside everything else. Until it is done, and when it fails, `NotOpen` stands in.
    """

    def __init__(
        self,
        built_in: Mapping[str, Backend],
        tables: Sequence[Table],
        profiles: Profiles,
        around: Around,
        *,
        on_open: Callable[[], None],
        report: Report,
    ) -> None:
        self._profiles = profiles
        self._around = around
        self._on_open = on_open
        self._report = report
        self._closing: set[asyncio.Task[None]] = set()
        self._refreshing = asyncio.Lock()  # what was read first is taken in first
        self._entries = {name: _built_in(name, backend) for name, backend in built_in.items()}
        self._entries |= {table.name: _of_table(table) for table in tables}
        self._tables = {table.name: table for table in tables}

    def __getitem__(self, name: str) -> Backend:
        return self._entries[name].backend

    def __iter__(self) -> Iterator[str]:
        return iter([*self._entries])

    def __len__(self) -> int:
        return len(self._entries)

    def visible(self, name: str, organisation: str) -> bool:
        """Whether jobs of this organisation may run there."""
        entry = self._entries.get(name)
        return entry is not None and entry.organisation in (EVERYBODY, organisation)

    def entry(self, name: str) -> Entry | None:
        return self._entries.get(name)

    def entries(self, organisation: str) -> list[Entry]:
        return [each for name, each in sorted(self._entries.items()) if self.visible(name, organisation)]

    async def follow(self, every_s: float) -> None:
        """Never returns; cancel it to stop."""
        while True:
            await asyncio.sleep(every_s)
            try:
                await self.refresh()
            except Exception as error:  # noqa: BLE001  a database that does not answer now will answer later
                self._report("backends could not be read and will be tried again", error)

    async def refresh(self) -> None:
        """Take in the profiles as they are now; what changed is opened beside, what failed is tried again."""
        async with self._refreshing:
            self._take_all({profile.name: profile for profile in await self._profiles.all()})

    async def settled(self, entry: Entry) -> None:
        """Returns once it is open or has failed to open."""
        if entry.opening is not None:
            await asyncio.wait([entry.opening])

    async def close(self) -> None:
        entries, self._entries = self._entries, {}
        for entry in entries.values():
            self._drop(entry)
        while self._closing:
            await asyncio.wait(self._closing)

    def _take_all(self, wanted: Mapping[str, Profile]) -> None:
        for name, entry in [*self._entries.items()]:
            if entry.source is Source.PROFILE and name not in wanted:
                self._drop(entry)
        for profile in wanted.values():
            self._take(profile)
        for entry in [*self._entries.values()]:
            if not entry.is_open and entry.opening is None:
                entry.opening = asyncio.create_task(self._opened(entry))

    def _take(self, profile: Profile) -> None:
        known = self._entries.get(profile.name)
        if known is None or (known.source is Source.PROFILE and known.profile != profile):
            entry = _of_profile(profile)
            entry.after = self._drop(known) if known is not None else None
            self._entries[profile.name] = entry
        elif known.source is not Source.PROFILE:
            known.reason = known.reason or "a profile has this name too and is not used"

    def _drop(self, entry: Entry) -> asyncio.Task[None]:
        self._entries.pop(entry.name, None)
        if entry.opening is not None:
            entry.opening.cancel()
        task = asyncio.create_task(self._closed(entry))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    async def _opened(self, entry: Entry) -> None:
        try:
            if entry.after is not None:
                await asyncio.wait([entry.after])
            kind = await asyncio.to_thread(registry.find, entry.kind)  # a vendor's library takes its time
            around = replace(self._around, pins=self._around.pins / entry.name)
            entry.backend = await kind.open(entry.name, self._options(entry, kind), around)
            entry.reason = ""
            self._on_open()
        except Exception as error:  # noqa: BLE001  whatever an adapter raises must not close the others
            self._failed(entry, error)
        finally:
            entry.opening = None

    def _options(self, entry: Entry, kind: Kind) -> Any:
        if entry.profile is None:
            return self._tables[entry.name].given.options
        credentials = self._profiles.credentials(entry.profile)
        return reading.read(kind.options, entry.plain, credentials).options

    def _failed(self, entry: Entry, error: Exception) -> None:
        why = str(error) or type(error).__name__
        if why != entry.reason:
            self._report(f"backend {entry.name!r} cannot be opened and will be tried again", error)
        entry.reason, entry.backend = why, NotOpen(entry.name, why)

    async def _closed(self, entry: Entry) -> None:
        close = getattr(entry.backend, "close", None)
        if close is None or entry.source is Source.BUILT_IN:
            return  # built in: whoever made it closes it
        try:
            await close()
        except Exception as error:  # noqa: BLE001
            self._report(f"backend {entry.name!r} did not close well", error)


def _built_in(name: str, backend: Backend) -> Entry:
    return Entry(name=name, kind=name, organisation=EVERYBODY, source=Source.BUILT_IN, backend=backend)


def _of_table(table: Table) -> Entry:
    return Entry(
        name=table.name,
        kind=table.kind,
        organisation=table.organisation,
        source=Source.SETTINGS,
        plain=table.given.plain,
        credential_names=tuple(sorted(table.given.credentials)),
        backend=NotOpen(table.name, "it is being opened"),
    )


def _of_profile(profile: Profile) -> Entry:
    return Entry(
        name=profile.name,
        kind=profile.kind,
        organisation=profile.organisation,
        source=Source.PROFILE,
        plain=profile.options,
        credential_names=profile.credential_names,
        profile=profile,
        backend=NotOpen(profile.name, "it is being opened"),
    )
