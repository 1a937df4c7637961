"""Plan a job before it is submitted: analyse its code and compare configured backends with catalog offers."""

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anygpu.backends.manager import BackendManager
from anygpu.backends.registry import kind_names
from anygpu.control.clock import Clock
from anygpu.control.schedule.compare import ReadPastRuns, TermsOf
from anygpu.control.schedule.offer_cache import OfferCache
from anygpu.events.offers import Offer
from anygpu.server.jobs.submission.code_files import read_code, read_snapshot_code
from anygpu.spec.jobspec import JobSpec
from anygpu.store.blobs.contract import Blobs
from anygpu.store.blobs.snapshots import Snapshots
from anygpu.store.blobs.uploads import Uploads

# The analyser and the catalog are loaded by the first plan, because a server start needs neither.
if TYPE_CHECKING:
    from anygpu.plan.analyse.findings import Analysis
    from anygpu.plan.catalog import CatalogLayers, CatalogPolicy
    from anygpu.plan.catalog.tables import PriceRow
    from anygpu.plan.offers.bill import Span
    from anygpu.plan.offers.candidates import Candidate, CandidateSet
    from anygpu.plan.offers.comparison import Comparison, RankedOffer
    from anygpu.plan.offers.estimate import DurationLookup

OFFERS_AGE_S = 5.0  # a plan that is made at every key press must not ask every backend each time
MAX_ANALYSES = 256  # a sweep submits the same code many times with different arguments
ANALYSED_FIELDS = {"script", "args", "command", "code", "trainer", "config", "workdir", "checkpoint"}
Today = Callable[[], date]


@dataclass(frozen=True, slots=True)
class _CatalogSnapshot:
    """The price catalog as its files were at one moment, with a cache of the offers that were built from it.

    The cache has an entry for each set of excluded clouds.
    """

    version: object
    rows: "list[PriceRow]"
    by_excluded: "dict[frozenset[str], CandidateSet]" = field(default_factory=dict)


class CatalogCandidates:
    """Offers of clouds in which the organisation has no backend. Loaded again when a catalog file changes."""

    def __init__(
        self, layers: "CatalogLayers", policy: "CatalogPolicy", stale_days: int, today: Today
    ) -> None:
        self._layers, self._policy, self._stale_days, self._today = layers, policy, stale_days, today
        self._snapshot: _CatalogSnapshot | None = None
        self._lock = asyncio.Lock()

    @property
    def policy(self) -> "CatalogPolicy":
        return self._policy

    async def candidates(self, excluded: frozenset[str]) -> "CandidateSet":
        """Return every catalog offer, except those of the `excluded` clouds, whose backends list their own offers."""
        async with self._lock:
            version = self._today(), _file_versions(self._layers)
            if self._snapshot is None or self._snapshot.version != version:
                self._snapshot = _CatalogSnapshot(version, await asyncio.to_thread(self._layers.rows))
            cached = self._snapshot.by_excluded
            if excluded not in cached:
                rows = self._snapshot.rows
                cached[excluded] = await asyncio.to_thread(self._build_candidates, rows, excluded)
            return cached[excluded]

    async def clouds_with(self, gpu_kind: str) -> set[str]:
        """Return the clouds that rent GPUs of this model or family; all clouds for an empty name."""
        from anygpu.plan.hardware import gpus

        await self.candidates(frozenset())
        rows = self._snapshot.rows if self._snapshot is not None else []
        return {row.cloud for row in rows if row.gpu and (not gpu_kind or gpus.matches(gpu_kind, row.gpu))}

    def _build_candidates(self, rows: "list[PriceRow]", excluded: frozenset[str]) -> "CandidateSet":
        from anygpu.plan.catalog import Catalog, candidates_in, terms

        by_cloud = terms()
        rented = [row for row in rows if row.cloud not in excluded and not by_cloud[row.cloud].is_owned]
        catalog = Catalog(rented, today=self._today(), policy=self._policy, stale_days=self._stale_days)
        return candidates_in(catalog, kinds=kind_names())


def _file_versions(layers: "CatalogLayers") -> tuple[tuple[str, int], ...]:
    files = [layers.edits, *sorted(layers.folder.glob("*.csv"))]
    return tuple((path.name, _modified_ns(path)) for path in files)


def _modified_ns(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


class AnalysisReader:
    """Analyses the code of submitted jobs. Results are cached, because a job is planned for each of its attempts.

    The code of a job that runs in place is read from its directory on the server's machine, if the job is of
    the server's own organisation.
    """

    def __init__(self, blobs: Blobs, uploads: Uploads, snapshots: Snapshots, own_organisation: str) -> None:
        self._blobs, self._uploads, self._snapshots = blobs, uploads, snapshots
        self._own_organisation = own_organisation
        self._cache: OrderedDict[object, Analysis | None] = OrderedDict()

    async def __call__(self, spec: JobSpec, organisation: str) -> "Analysis | None":
        files = await self._read_files(spec, organisation)
        key = (organisation, spec.model_dump_json(include=ANALYSED_FIELDS), _content_key(files))
        if key in self._cache:
            self._cache.move_to_end(key)
            return self._cache[key]
        analysis = (
            await asyncio.to_thread(_analyse_files, spec, files)
            if files
            else await asyncio.to_thread(_analyse_archive, spec, await self._read_archive(spec, organisation))
        )
        self._cache[key] = analysis
        if len(self._cache) > MAX_ANALYSES:
            self._cache.popitem(last=False)
        return analysis

    async def _read_files(self, spec: JobSpec, organisation: str) -> dict[str, bytes]:
        """Return the code of a job that runs in place or has a snapshot; empty for other jobs."""
        if spec.trainer is not None or spec.workdir is None:
            return {}
        if spec.in_place is not None and organisation == self._own_organisation:
            return await asyncio.to_thread(read_code, spec, spec.in_place)
        if spec.workdir.manifest is None:
            return {}
        return await read_snapshot_code(self._snapshots, organisation, spec, spec.workdir.manifest)

    async def _read_archive(self, spec: JobSpec, organisation: str) -> bytes:
        """Return the archive of the working directory; empty if there is none or it is too large to analyse."""
        sha256 = spec.workdir.archive if spec.workdir else None
        if sha256 is None or spec.trainer is not None:
            return b""
        key = self._uploads.key(organisation, sha256)
        info = await self._blobs.head(key)
        max_bytes = await asyncio.to_thread(_max_archive_bytes)
        return b"" if info is None or info.size > max_bytes else await self._blobs.get(key)


def _content_key(files: Mapping[str, bytes]) -> str:
    """Return a hash of the files; empty if there are none."""
    if not files:
        return ""
    whole = hashlib.sha256()
    for name, text in sorted(files.items()):
        whole.update(hashlib.sha256(name.encode(errors="surrogateescape")).digest())
        whole.update(hashlib.sha256(text).digest())
    return whole.hexdigest()


def _max_archive_bytes() -> int:
    """Return the size limit of the analyser. Imports the analyser, so call it in a thread."""
    from anygpu.plan.analyse.job import MAX_ARCHIVE_BYTES

    return MAX_ARCHIVE_BYTES


def _analyse_archive(spec: JobSpec, archive: bytes) -> "Analysis | None":
    from anygpu.plan.analyse.job import read_archive

    files = read_archive(archive, spec.workdir.subdir if spec.workdir else "") if archive else {}
    return _analyse_files(spec, files)


def _analyse_files(spec: JobSpec, files: Mapping[str, str | bytes]) -> "Analysis | None":
    from anygpu.plan.analyse.job import analyse_job

    return analyse_job(spec, files)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """What a plan shows: the length of the list of offers (None: all) and of the short list.

    `backends` limits the short list to offers of these backends and clouds; empty means all. With `outside`, the
    plan also has offers that only the budget or the deadline excludes.
    """

    limit: int | None
    short: int
    backends: frozenset[str] = frozenset()
    outside: bool = False


def _without_limits(spec: JobSpec) -> JobSpec:
    """Return the spec without budget and deadline."""
    freed = {"max_cost_microusd": None, "deadline_s": None, "deadline_at": None}
    return spec.model_copy(update={"limits": spec.limits.model_copy(update=freed)})


def _anywhere(spec: JobSpec) -> JobSpec:
    """Return the spec without budget, deadline and the places that it names, and as if its files were uploaded."""
    named = ("strategy", "profile", "region", "zone", "instance_type")
    lists = ("fallbacks", "allowed", "forbidden")
    freed = {**dict.fromkeys(named), **dict.fromkeys(lists, ()), "paid": True}
    workdir = spec.workdir.model_copy(update={"in_place": None}) if spec.workdir else None
    update = {"placement": spec.placement.model_copy(update=freed), "workdir": workdir}
    return _without_limits(spec).model_copy(update=update)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlanInputs:
    """What offers for a job are compared by."""

    analysis: "Analysis | None"
    duration: "DurationLookup | None"
    rough_duration: "Span | None"
    candidates: "CandidateSet"
    configured: set[str]

    def rank(
        self,
        spec: JobSpec,
        *,
        allow_paid: bool,
        deadline_s: float | None = None,
        backends: frozenset[str] = frozenset(),
    ) -> "Comparison":
        from anygpu.plan.offers.comparison import rank

        return rank(
            spec,
            self.candidates,
            self.analysis,
            deadline_s=deadline_s,
            duration=self.duration,
            rough_duration=self.rough_duration,
            allow_paid=allow_paid,
            backends=backends,
        )


def _offers_outside(limited: "Comparison", unlimited: "Comparison", count: int) -> "tuple[RankedOffer, ...]":
    """Return the best offers of those machines that fit only without budget and deadline."""
    from anygpu.plan.offers.ranking import machine_of

    inside = {machine_of(each.candidate.offer) for each in limited.best_per_machine}
    others = (each for each in unlimited.best_per_machine if machine_of(each.candidate.offer) not in inside)
    return tuple(islice(others, count or None))


def _count_offers(candidates: "CandidateSet", configured: set[str]) -> list[dict[str, Any]]:
    counts = candidates.count_by_backend()
    return [
        {"backend": name, "offers": count, "configured": name in configured} for name, count in counts.items()
    ]


class JobPlanner:
    """Compares offers for a job before it is submitted. Nothing is started or stored."""

    def __init__(
        self,
        backends: BackendManager,
        offer_cache: OfferCache,
        catalog: CatalogCandidates,
        analyses: AnalysisReader,
        past_runs: ReadPastRuns,
        clock: Clock,
        terms_of: TermsOf,
        *,
        allow_paid: bool,
    ) -> None:
        self._backends, self._offer_cache, self._catalog = backends, offer_cache, catalog
        self._analyses, self._past_runs, self._clock = analyses, past_runs, clock
        self._terms_of, self._allow_paid = terms_of, allow_paid

    async def plan(
        self, spec: JobSpec, organisation: str, files: Mapping[str, str], view: PlanView
    ) -> dict[str, Any]:
        """Plan a job, and return the comparison of offers as plain data.

        `files` is the job's code, if it was not uploaded.
        """
        inputs = await self._gather(spec, organisation, files)
        now = datetime.fromtimestamp(self._clock.wall_ms() / 1000, UTC)

        def compare() -> dict[str, Any]:
            from anygpu.plan.offers.comparison import comparison_as_dict

            def ranked(job: JobSpec) -> "Comparison":
                return inputs.rank(
                    job,
                    deadline_s=job.limits.seconds_left(now),
                    allow_paid=self._allow_paid,
                    backends=view.backends,
                )

            comparison = ranked(spec)
            without = _without_limits(spec) if view.outside else spec
            outside = _offers_outside(comparison, ranked(without), view.short) if without != spec else ()
            plan = comparison_as_dict(
                comparison, inputs.analysis, limit=view.limit, short=view.short, outside=outside
            )
            return {**plan, "compared": _count_offers(inputs.candidates, inputs.configured)}

        return await asyncio.to_thread(compare)

    async def compare_providers(
        self, spec: JobSpec, organisation: str, files: Mapping[str, str]
    ) -> "Comparison":
        """Compare the whole workload at all providers, as if the job named no place and had no limits."""
        inputs = await self._gather(spec, organisation, files)
        return await asyncio.to_thread(inputs.rank, _anywhere(spec), allow_paid=True)

    async def first_configured(
        self, spec: JobSpec, organisation: str, files: Mapping[str, str], accepts: Callable[[Offer], bool]
    ) -> Offer | None:
        """Return the best offer of a configured backend that fits the job and that `accepts` accepts.

        Offers that cost money are included, as if the user had agreed to them.
        """
        inputs = await self._gather(spec, organisation, files)

        def find() -> Offer | None:
            ranked = inputs.rank(spec, allow_paid=True, backends=frozenset(inputs.configured))
            offers = (each.candidate.offer for each in ranked.ranked)
            return next(
                (each for each in offers if each.backend in inputs.configured and accepts(each)), None
            )

        return await asyncio.to_thread(find)

    async def _gather(self, spec: JobSpec, organisation: str, files: Mapping[str, str]) -> "_PlanInputs":
        from anygpu.plan.predict.history import past_durations, rough_duration

        analysis = await self._analyse(spec, organisation, files)
        past = await self._past_runs(spec, organisation)
        own = await self._configured_candidates(spec, organisation)
        entries = self._backends.entries(organisation)
        catalog = await self._catalog.candidates(frozenset(each.kind for each in entries))
        return _PlanInputs(
            analysis=analysis,
            duration=past_durations(spec, analysis, past),
            rough_duration=rough_duration(spec, past),
            candidates=catalog.extend(own),
            configured={each.name for each in entries},
        )

    async def shows_resuming(self, spec: JobSpec, organisation: str) -> bool:
        """Return whether the spec or the code shows that the job can resume."""
        from anygpu.plan.offers.fit import has_resume_path

        return has_resume_path(spec) or has_resume_path(spec, await self._analyses(spec, organisation))

    async def compare(self, spec: JobSpec, organisation: str, offers: Sequence[Offer]) -> "Comparison":
        """Compare these offers of configured backends for a job, as if the job may use paid machines."""
        from anygpu.plan.offers.candidates import Candidate
        from anygpu.plan.offers.comparison import rank
        from anygpu.plan.predict.history import past_durations

        analysis = await self._analyses(spec, organisation)
        duration = past_durations(spec, analysis, await self._past_runs(spec, organisation))
        candidates = [Candidate.from_offer(each, self._terms_of(each.backend)) for each in offers]
        return await asyncio.to_thread(rank, spec, candidates, analysis, duration=duration)

    async def _analyse(self, spec: JobSpec, organisation: str, files: Mapping[str, str]) -> "Analysis | None":
        if files:
            return await asyncio.to_thread(_analyse_files, spec, files)
        return await self._analyses(spec, organisation)

    async def _configured_candidates(self, spec: JobSpec, organisation: str) -> "list[Candidate]":
        from anygpu.plan.offers.candidates import Candidate

        offers = await self._offer_cache.offers(spec.resources, age_s=OFFERS_AGE_S)
        visible = [offer for offer in offers if self._backends.visible(offer.backend, organisation)]
        return [
            Candidate.from_offer(self._with_own_price(each), self._terms_of(each.backend)) for each in visible
        ]

    def _with_own_price(self, offer: Offer) -> Offer:
        """Return the offer, at the price in the setting `catalog.own_prices` if its own price is 0."""
        own = self._catalog.policy.own_microusd_per_hour.get(offer.backend)
        return offer if own is None or offer.is_paid else replace(offer, price_microusd_per_hour=own)
