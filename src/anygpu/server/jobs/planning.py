"""Plan a job before it is submitted: analyse its code and compare configured backends with catalog offers."""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

from anygpu.backends.configured import Backends
from anygpu.control.clock import Clock
from anygpu.control.schedule.compare import ConditionsAt, ReadPastRuns, as_candidate
from anygpu.control.schedule.offer_cache import OfferCache
from anygpu.events.offers import Offer
from anygpu.plan.analyse import Analysis
from anygpu.plan.analyse.job import MAX_ARCHIVE_BYTES, analyse_job, read_archive
from anygpu.plan.catalog import Catalog, CatalogLayers, CatalogPolicy, candidates_in, terms
from anygpu.plan.catalog.tables import PriceRow
from anygpu.plan.offers.candidates import Candidate, CandidateSet
from anygpu.plan.offers.comparison import comparison_as_dict, rank
from anygpu.plan.predict.history import past_durations
from anygpu.spec.jobspec import JobSpec
from anygpu.store.blobs.contract import Blobs
from anygpu.store.blobs.uploads import Uploads

Today = Callable[[], date]


@dataclass(frozen=True, slots=True)
class _CatalogSnapshot:
    """The rows as they were in files of these ages, and what was made of them for those who have backends there."""

    stamp: object
    rows: list[PriceRow]
    by_excluded: dict[frozenset[str], CandidateSet] = field(default_factory=dict)


class CatalogOffers:
    """Clouds in which nobody has configured a backend, as places."""

    def __init__(self, layers: CatalogLayers, policy: CatalogPolicy, stale_days: int, today: Today) -> None:
        self._layers, self._policy, self._stale_days, self._today = layers, policy, stale_days, today
        self._snapshot: _CatalogSnapshot | None = None
        self._lock = asyncio.Lock()

    @property
    def policy(self) -> CatalogPolicy:
        return self._policy

    async def candidates(self, excluded: frozenset[str]) -> CandidateSet:
        """`without`: clouds whose offers are known from the backends themselves."""
        async with self._lock:
            stamp = self._today(), _file_versions(self._layers)
            if self._snapshot is None or self._snapshot.stamp != stamp:
                self._snapshot = _CatalogSnapshot(stamp, await asyncio.to_thread(self._layers.rows))
            read = self._snapshot
            if excluded not in read.by_excluded:
                read.by_excluded[excluded] = await asyncio.to_thread(
                    self._build_candidates, read.rows, excluded
                )
            return read.by_excluded[excluded]

    def _build_candidates(self, rows: list[PriceRow], excluded: frozenset[str]) -> CandidateSet:
        known = terms()
        others = [row for row in rows if row.cloud not in excluded and not known[row.cloud].is_owned]
        catalog = Catalog(others, today=self._today(), policy=self._policy, stale_days=self._stale_days)
        return candidates_in(catalog)


def _file_versions(layers: CatalogLayers) -> tuple[tuple[str, int], ...]:
    files = [layers.edits, *sorted(layers.folder.glob("*.csv"))]
    return tuple((path.name, _modified_ns(path)) for path in files)


def _modified_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


MAX_ANALYSES = 256  # readings; a sweep of many jobs is one code with other arguments


class AnalysisReader:
    """What was read is remembered: a job is planned again whenever it needs another place."""

    def __init__(self, blobs: Blobs, uploads: Uploads) -> None:
        self._blobs, self._uploads = blobs, uploads
        self._cache: OrderedDict[object, Analysis | None] = OrderedDict()

    async def __call__(self, spec: JobSpec, organisation: str) -> Analysis | None:
        key = (
            organisation,
            spec.model_dump_json(
                include={"script", "args", "command", "code", "trainer", "config", "workdir"}
            ),
        )
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        archive = await self._read_archive(spec, organisation)
        read = await asyncio.to_thread(_analyse_archive, spec, archive)
        self._cache[key] = read
        if len(self._cache) > MAX_ANALYSES:
            self._cache.popitem(last=False)
        return read

    async def _read_archive(self, spec: JobSpec, organisation: str) -> bytes:
        """Empty where there is none, or one so large that reading it would be noticed."""
        sha256 = spec.workdir.archive if spec.workdir else None
        if sha256 is None or spec.trainer is not None:
            return b""
        key = self._uploads.key(organisation, sha256)
        info = await self._blobs.head(key)
        return b"" if info is None or info.size > MAX_ARCHIVE_BYTES else await self._blobs.get(key)


def _analyse_archive(spec: JobSpec, archive: bytes) -> Analysis | None:
    files = read_archive(archive, spec.workdir.subdir if spec.workdir else "") if archive else {}
    return analyse_job(spec, files)


class JobPlanner:
    """Nothing is started, kept or changed by asking."""

    def __init__(
        self,
        backends: Backends,
        quotes: OfferCache,
        catalog: CatalogOffers,
        analyses: AnalysisReader,
        remembers: ReadPastRuns,
        clock: Clock,
        conditions_at: ConditionsAt,
    ) -> None:
        self._backends, self._quotes, self._catalog = backends, quotes, catalog
        self._analyses, self._remembers, self._clock = analyses, remembers, clock
        self._conditions_at = conditions_at

    async def plan(
        self, spec: JobSpec, organisation: str, files: Mapping[str, str], *, most: int | None, short: int
    ) -> dict[str, Any]:
        """`files`: the code, where it was not uploaded. `most` and `short`: see `document`."""
        read = await self._analyse(spec, organisation, files)
        duration = past_durations(spec, read, await self._remembers(spec, organisation))
        own = await self._configured_candidates(spec, organisation)
        kinds = frozenset(entry.kind for entry in self._backends.entries(organisation))
        places = (await self._catalog.candidates(kinds)).extend(own)

        now = datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC)

        def compared() -> dict[str, Any]:
            found = rank(spec, read, places, deadline_s=spec.limits.seconds_left(now), duration=duration)
            return comparison_as_dict(found, read, limit=most, short=short)

        return await asyncio.to_thread(compared)

    async def _analyse(self, spec: JobSpec, organisation: str, files: Mapping[str, str]) -> Analysis | None:
        if files:
            return await asyncio.to_thread(analyse_job, spec, files)
        return await self._analyses(spec, organisation)

    async def _configured_candidates(self, spec: JobSpec, organisation: str) -> list[Candidate]:
        offers = await self._quotes.offers(spec.resources)
        mine = [offer for offer in offers if self._backends.visible(offer.backend, organisation)]
        return [
            as_candidate(self._with_own_price(offer), self._conditions_at(offer.backend)) for offer in mine
        ]

    def _with_own_price(self, offer: Offer) -> Offer:
        """A machine one owns costs what the organisation says it does."""
        own = self._catalog.policy.own_microusd_per_hour.get(offer.backend)
        return offer if own is None or offer.is_paid else replace(offer, price_microusd_per_hour=own)
