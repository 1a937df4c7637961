"""Compare what a whole workload costs at different providers, with a verdict for the best ones. Pure functions."""

from collections.abc import Sequence
from typing import Any

from anygpu.events.offers import HOUR_S, MICROUSD, Offer
from anygpu.plan.offers.availability import OfferAvailability, availability
from anygpu.plan.offers.candidates import Candidate
from anygpu.plan.offers.comparison import Comparison, RankedOffer
from anygpu.plan.offers.wording import FAST_START_S, describe_duration

MAX_PROVIDERS = 12  # listed machines
CONSIDERED = 200  # machines that are considered, best first
LARGE_GPU_GIB = 40
DAY_S = 24 * HOUR_S
BILLING_STEPS = {1: "billed by the second", 60: "billed by the minute", 3600: "billed by the hour"}


def provider_comparison(comparison: Comparison, *, limit: int = MAX_PROVIDERS) -> dict[str, Any]:
    """Return the best machines of all providers as JSON data, cheapest first, with the recommended one."""
    offers = comparison.best_per_provider[:CONSIDERED]
    verdicts = _verdicts([each for each in offers if _is_usable(each)] or offers)
    listed = sorted(_choose(offers, verdicts, limit), key=_cost_then_time)
    choice = comparison.choice
    return {
        "basis": choice.basis if choice else "nothing",
        "recommendation": _recommendation(choice) if choice else "",
        "providers": [_as_dict(each, verdicts.get(id(each), ""), choice) for each in listed],
        "more": len(comparison.best_per_provider) - len(listed),
    }


def _choose(offers: Sequence[RankedOffer], verdicts: dict[int, str], limit: int) -> Sequence[RankedOffer]:
    """Choose the offers with a verdict, then the best of each provider, then the best of the others."""
    providers: set[str] = set()
    firsts = []
    for each in offers:
        if each.candidate.offer.backend not in providers:
            providers.add(each.candidate.offer.backend)
            firsts.append(each)
    ordered = [*(each for each in offers if id(each) in verdicts), *firsts, *offers]
    return list({id(each): each for each in ordered}.values())[:limit]


def _is_usable(each: RankedOffer) -> bool:
    """Return whether anygpu could rent the machine, at a price that is recent enough."""
    status = availability(each.candidate, needs_consent=False)
    return status is not OfferAvailability.COMPARISON_ONLY and not each.doubt


def _verdicts(offers: Sequence[RankedOffer]) -> dict[int, str]:
    """Name the cheapest, the fastest, and the one with the lowest sum of relative cost and relative time."""
    if len(offers) < 2:
        return {}
    cheapest = min(offers, key=_cost_then_time)
    fastest = min(offers, key=lambda each: (_time(each), _cost(each)))
    least_cost = max(
        1.0, min(_cost(each) for each in offers if _cost(each)) if any(map(_cost, offers)) else 1.0
    )
    least_time = max(1.0, _time(fastest))
    balanced = min(offers, key=lambda each: _cost(each) / least_cost + _time(each) / least_time)
    named = {id(balanced): "balanced", id(fastest): "fastest"}
    return {**named, id(cheapest): "cheapest"}


def _cost(each: RankedOffer) -> float:
    return each.bill.cost_microusd.expected


def _time(each: RankedOffer) -> float:
    return each.bill.wall_s.expected


def _cost_then_time(each: RankedOffer) -> tuple[float, float]:
    return _cost(each), _time(each)


def _as_dict(ranked: RankedOffer, verdict: str, choice: RankedOffer | None) -> dict[str, Any]:
    candidate, offer, bill = ranked.candidate, ranked.candidate.offer, ranked.bill
    state, words = _availability(candidate, bill.nodes)
    return {
        "provider": offer.backend,
        "machine": offer.name,
        "region": offer.region,
        "gpu": offer.gpu_kind,
        "gpus": offer.gpu_count,
        "gpu_memory_gib": offer.gpu_memory_gib,
        "interruptible": offer.interruptible,
        "own": not offer.is_rented,
        "price_microusd_per_hour": offer.price_microusd_per_hour,
        "nodes": bill.nodes,
        "total_price_microusd_per_hour": offer.price_microusd_per_hour * bill.nodes,
        "total_microusd": {
            "expected": round(bill.cost_microusd.expected),
            "low": round(bill.cost_microusd.low),
            "high": round(bill.cost_microusd.high),
        },
        "seconds": {"expected": bill.wall_s.expected, "low": bill.wall_s.low, "high": bill.wall_s.high},
        "confidence": ranked.confidence,
        "availability": state,
        "free": offer.free,
        "available": words,
        "features": _features(candidate),
        "verdict": verdict,
        "recommended": choice is not None and choice.candidate.offer.key == offer.key,
    }


def _availability(candidate: Candidate, nodes: int) -> tuple[str, str]:
    """Return the availability as a word for programs, and as a text for people."""
    offer = candidate.offer
    if not candidate.configured:
        return ("no_account", "no account") if candidate.has_backend else ("unsupported", "not supported")
    if offer.free_or_inf < nodes:
        return "full", offer.wait_reason or ("all in use" if nodes == 1 else f"{offer.free} of {nodes} free")
    return ("unknown", "not known") if offer.free is None else ("free", f"{offer.free} free")


def _features(candidate: Candidate) -> list[str]:
    offer = candidate.offer
    step_s = offer.billing.step_s
    statements = (
        ("own machine", offer.own or not offer.is_paid),
        ("spot", offer.interruptible),
        (BILLING_STEPS.get(step_s, f"billed in steps of {describe_duration(step_s)}"), offer.is_rented),
        (f"{offer.gpu_memory_gib:g} GB per GPU", offer.gpu_memory_gib >= LARGE_GPU_GIB),
        ("shared", offer.shared or not candidate.dedicated),
        (f"starts in {describe_duration(candidate.boot_s)}", candidate.boot_s <= FAST_START_S),
        (_longest_run_text(offer), offer.max_run_s is not None),
        (f"price of {candidate.price_date}", bool(candidate.price_date)),
    )
    return [text for text, true in statements if true]


def _longest_run_text(offer: Offer) -> str:
    return (
        "one day at most"
        if offer.max_run_s == DAY_S
        else f"{describe_duration(offer.max_run_s or 0)} at most"
    )


def _recommendation(choice: RankedOffer) -> str:
    offer = choice.candidate.offer
    machine = " ".join(part for part in (offer.backend, offer.name) if part)
    figures = f"${_cost(choice) / MICROUSD:,.2f}", describe_duration(_time(choice))
    return f"{machine}: {', '.join(choice.pros or figures)}"
