"""Check, before a job is stored, that a configured backend could run it and that the job may use paid machines."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from anygpu.backends import registry
from anygpu.backends.manager import BackendEntry, BackendManager, BackendSource
from anygpu.control.accounting.money import format_dollars
from anygpu.control.schedule.offer_cache import OfferCache
from anygpu.errors import MaxCostTooLow, NeedsPaidConsent, NeedsSnapshot, NoBackendFits
from anygpu.events.offers import LOCAL, Offer
from anygpu.plan.offers.consent import PAID_FLAG, allows_paid
from anygpu.plan.offers.fit import unfit_reason
from anygpu.plan.offers.misfit import (
    Misfit,
    RejectedOffers,
    describe_misfit,
    rejected_offers,
    unknown_backend,
)
from anygpu.server.jobs.submission.planning import CatalogCandidates, JobPlanner
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.sections import Resources

if TYPE_CHECKING:
    from anygpu.plan.offers.comparison import RankedOffer

COMPARE_LIMIT_S = 2.0  # a refusal names the predicted cost only if it is known within this time
WAITING_STRATEGY = "queue"
ANY_ARCHIVE = "0" * 64  # stands for the copy of the files that an in-place job could have


class JobAdmission:
    """Refuses jobs that no configured backend could ever run, and jobs that would cost money unasked.

    A backend that does not answer in time may fit, so the job is accepted. A job that could run, but not now, is
    accepted and waits.
    """

    def __init__(
        self,
        backends: BackendManager,
        offer_cache: OfferCache,
        planner: JobPlanner,
        catalog: CatalogCandidates,
        *,
        allow_paid: bool,
        min_run_s: int,
        has_peers: bool,
    ) -> None:
        """Create the check. `has_peers`: other servers share the database, and may have machines of their own."""
        self._backends, self._offer_cache = backends, offer_cache
        self._planner, self._catalog = planner, catalog
        self._allow_paid, self._min_run_s, self._has_peers = allow_paid, min_run_s, has_peers

    async def __call__(self, spec: JobSpec, organisation: str) -> None:
        """Raise an error if the job cannot be accepted."""
        entries = self._backends.entries(organisation)
        known = {each.name for each in entries} | ({LOCAL} if self._has_peers else set())
        if (unknown := unknown_backend(spec, known)) is not None:
            raise NoBackendFits(unknown.message, hint=unknown.hint)
        usable = [each for each in entries if _may_use(spec, each.name)]
        if await self._fits_here(spec, usable):
            return
        copied = spec.with_archive(ANY_ARCHIVE) if spec.is_only_in_place else spec
        await self._require_other_backend(copied, organisation, usable)
        if spec.is_only_in_place:
            raise NeedsSnapshot(
                f"The job would run in its own directory, {spec.in_place}, on the server's machine, but that "
                "machine cannot run it.",
                hint="Submit it with --snapshot (workdir.snapshot: true): its files are then uploaded, and another "
                "machine can run it.",
            )

    async def _fits_here(self, spec: JobSpec, usable: Sequence[BackendEntry]) -> bool:
        """Return whether the server's own machine can run the job. It answers at once; other backends may be slow."""
        built_in = [each for each in usable if each.source is BackendSource.BUILT_IN]
        offers, _ = await self._ask(spec.resources, built_in)
        return any(not unfit_reason(spec, each) for each in offers)

    async def _require_other_backend(
        self, spec: JobSpec, organisation: str, usable: Sequence[BackendEntry]
    ) -> None:
        """Raise an error unless one of the backends may run the job, at no cost or at a cost that the job allows."""
        offers, all_answered = await self._ask(spec.resources, usable)
        resumable = await self._is_resumable(spec, organisation, offers)
        fitting = [each for each in offers if not unfit_reason(spec, each, resumable=resumable)]
        if not all_answered or self._has_peers or any(not each.is_rented for each in fitting):
            return
        if not fitting:
            raise await self._no_backend_fits(spec, organisation, offers, resumable=resumable)
        own = rejected_offers(spec, [each for each in offers if not each.is_rented], resumable=resumable)
        await self._require_payment(spec, organisation, fitting, own)

    async def _ask(self, need: Resources, entries: Sequence[BackendEntry]) -> tuple[list[Offer], bool]:
        """Ask the backends for offers. Return the offers, and whether all backends have answered."""
        answers = await self._offer_cache.answers(need, {each.name for each in entries})
        offers = [offer for answer in answers.values() for offer in answer or ()]
        return offers, all(answer is not None for answer in answers.values())

    async def _is_resumable(self, spec: JobSpec, organisation: str, offers: Sequence[Offer]) -> bool | None:
        """Return True if the job can resume, else None. The code is analysed only if an offer depends on it."""
        automatic = spec.placement.interruptible == "auto"
        if not automatic or not any(each.interruptible for each in offers):
            return None
        return await self._planner.shows_resuming(spec, organisation) or None

    async def _no_backend_fits(
        self, spec: JobSpec, organisation: str, offers: Sequence[Offer], *, resumable: bool | None
    ) -> NoBackendFits:
        clouds = await self._unused_clouds(spec, organisation)
        misfit: Misfit = describe_misfit(spec, offers, resumable=resumable, clouds=clouds)
        reasons = [asdict(each) for each in rejected_offers(spec, offers, resumable=resumable)]
        return NoBackendFits(misfit.message, hint=misfit.hint, reasons=reasons)

    async def _unused_clouds(self, spec: JobSpec, organisation: str) -> set[str]:
        """Return the kinds of backends that rent the requested GPU and are not configured."""
        gpu = spec.resources.gpu
        if gpu is None or not gpu.count or spec.placement.allowed_backends:
            return set()
        used = {each.kind for each in self._backends.entries(organisation)}
        return (await self._catalog.clouds_with(gpu.kind or "") & registry.kind_names()) - used

    async def _require_payment(
        self, spec: JobSpec, organisation: str, offers: Sequence[Offer], own: Sequence[RejectedOffers]
    ) -> None:
        """Raise an error if the job may not use any of the offers, all of which cost money.

        `own` says why the user's own machines cannot run the job.
        """
        if spec.placement.paid is False or spec.placement.strategy == WAITING_STRATEGY:
            return  # the user chose to wait for an own machine
        if not allows_paid(spec, default=self._allow_paid):
            best = await self._best_offer(spec, organisation, offers)
            raise self._needs_consent(best, offers, own, nodes=spec.resources.nodes)
        if spec.limits.max_cost_microusd is not None:
            await self._require_budget(spec, organisation, offers, spec.limits.max_cost_microusd)

    def _needs_consent(
        self,
        best: "RankedOffer | None",
        offers: Sequence[Offer],
        own: Sequence[RejectedOffers],
        *,
        nodes: int,
    ) -> NeedsPaidConsent:
        offer = best.candidate.offer if best is not None else min(offers, key=_price)
        described = _describe_offer(offer, best, nodes)
        total = described["cost_microusd"]
        predicted = f", about {format_dollars(total)} in total" if total is not None else ""
        return NeedsPaidConsent(
            f"Only machines that cost money can run this job{_reasons_text(own)}. The best offer is {_place(offer)}"
            f" at {_price_text(offer, nodes)} per hour{predicted}.",
            hint=f"Allow it with {PAID_FLAG} (placement.paid: true), or wait for a machine of your own with --no-paid.",
            offer=described,
            reasons=[asdict(each) for each in own],
        )

    async def _require_budget(
        self, spec: JobSpec, organisation: str, offers: Sequence[Offer], limit_microusd: int
    ) -> None:
        nodes = spec.resources.nodes
        least = {each.key: nodes * self._least_cost(each) for each in offers}
        cheapest = min(offers, key=lambda each: least[each.key])
        if least[cheapest.key] > limit_microusd:
            at_least = f"costs at least {format_dollars(least[cheapest.key])}"
            raise _max_cost_too_low(cheapest, at_least, limit_microusd, nodes=nodes)
        unlimited = spec.model_copy(
            update={"limits": spec.limits.model_copy(update={"max_cost_microusd": None})}
        )
        best = await self._best_offer(unlimited, organisation, offers)
        expected = best.bill.cost_microusd.expected if best is not None and best.confidence != "low" else 0
        if best is not None and expected > limit_microusd:
            predicted = f"is predicted to cost {format_dollars(round(expected))} in total"
            raise _max_cost_too_low(best.candidate.offer, predicted, limit_microusd, nodes=nodes)

    def _least_cost(self, offer: Offer) -> int:
        return offer.billing.cost_microusd(offer.price_microusd_per_hour, self._min_run_s)

    async def _best_offer(
        self, spec: JobSpec, organisation: str, offers: Sequence[Offer]
    ) -> "RankedOffer | None":
        """Return the offer on which the job is cheapest to finish; None if that is not known in time."""
        cheapest = spec.model_copy(
            update={"placement": spec.placement.model_copy(update={"strategy": "cheapest", "paid": True})}
        )
        try:
            async with asyncio.timeout(COMPARE_LIMIT_S):
                return (await self._planner.compare(cheapest, organisation, offers)).choice
        except Exception:  # noqa: BLE001  the refusal is right without a prediction
            return None


def _may_use(spec: JobSpec, backend: str) -> bool:
    placement = spec.placement
    allowed = placement.allowed_backends
    return backend not in placement.forbidden and (not allowed or backend in allowed)


def _reasons_text(rejected: Sequence[RejectedOffers]) -> str:
    """Return the reasons in brackets, for the end of a sentence; an empty string if there are none."""
    texts = [f"{each.backend}: {each.reason}" for each in rejected]
    return f" ({'; '.join(texts)})" if texts else ""


def _price(offer: Offer) -> int:
    return offer.price_microusd_per_hour


def _place(offer: Offer) -> str:
    machine, where = " ".join(filter(None, (offer.backend, offer.name))), offer.zone or offer.region
    return f"{machine}{f' in {where}' if where else ''}{' (spot)' if offer.interruptible else ''}"


def _price_text(offer: Offer, nodes: int) -> str:
    """Return the price of all nodes together, and how it is made up."""
    total = format_dollars(_price(offer) * nodes)
    return f"{total} ({nodes} nodes at {format_dollars(_price(offer))})" if nodes > 1 else total


def _describe_offer(offer: Offer, best: "RankedOffer | None", nodes: int) -> dict[str, Any]:
    predicted = best is not None and best.basis != "nothing"
    return {
        **offer.place_fields(),
        "price_microusd_per_hour": offer.price_microusd_per_hour,
        "nodes": nodes,
        "total_price_microusd_per_hour": offer.price_microusd_per_hour * nodes,
        "seconds": best.bill.wall_s.expected if best is not None and predicted else None,
        "cost_microusd": round(best.bill.cost_microusd.expected) if best is not None and predicted else None,
    }


def _max_cost_too_low(offer: Offer, cost: str, limit_microusd: int, *, nodes: int) -> MaxCostTooLow:
    return MaxCostTooLow(
        f"The budget of {format_dollars(limit_microusd)} pays for no machine that can run this job. The cheapest,"
        f" {_place(offer)} at {_price_text(offer, nodes)} per hour, {cost}.",
        hint="Raise the budget with --max-cost (limits.max_cost), or change what the job needs.",
        offer=_describe_offer(offer, None, nodes),
    )
