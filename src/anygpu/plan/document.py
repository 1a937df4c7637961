"""A plan as plain data: what the command prints, the API answers, and is kept with the job."""

from collections.abc import Sequence
from typing import Any

from anygpu.events.facts import Offer
from anygpu.plan.analyse import Analysis, summary
from anygpu.plan.bill import Span
from anygpu.plan.planner import Line, Planned, Reason

KEPT = 200  # offers, best first
SHORT = 8


def document(
    found: Planned, read: Analysis | None, *, most: int | None = KEPT, short: int = SHORT
) -> dict[str, Any]:
    """`most`: how many offers are told, the rest is counted; `short`: how many kinds of machine."""
    shown = found.lines[:most]
    return {
        "strategy": found.strategy,
        "choice": entry(found.choice) if found.choice else None,
        "short": [entry(line) for line in found.short(short or SHORT)],
        "offers": [entry(line) for line in shown],
        "more_offers": len(found.lines) - len(shown),
        "rejected": rejected(found.reasons),
        "workload": workload(read),
        "lints": lints(read),
    }


def entry(line: Line) -> dict[str, Any]:
    bill, offer = line.bill, line.place.offer
    return {
        **named(offer),
        "configured": line.place.own,
        "score": line.score,
        "price_microusd_per_hour": offer.price_microusd_per_hour,
        "seconds": _span(bill.wall_s),
        "cost_microusd": {name: round(value) for name, value in _span(bill.cost_microusd).items()},
        "out_of_pocket_microusd": {name: round(value) for name, value in _span(line.from_pocket).items()},
        "credit_microusd": line.place.credit_microusd,
        "runs": bill.runs,
        "max_run_s": offer.max_run_s,
        "setup_s": round(bill.setup_s),
        "transfer_s": round(bill.transfer_s),
        "interruptions_s": round(bill.saving_s),
        "checkpoint_every_s": round(bill.every_s) if offer.interruptible else None,
        "confidence": line.confidence,
        "basis": line.basis,
        "free": offer.free,
        "wait": offer.wait_reason,
        "pros": list(line.pros),
        "cons": list(line.cons),
    }


def named(offer: Offer) -> dict[str, Any]:
    return {
        "backend": offer.backend,
        "name": offer.name,
        "region": offer.region,
        "zone": offer.zone,
        "gpu": offer.gpu_kind,
        "gpus": offer.gpu_count,
        "interruptible": offer.interruptible,
    }


def rejected(reasons: Sequence[Reason]) -> list[dict[str, Any]]:
    """By reason, with a few examples of each."""
    return [
        {
            "reason": each.reason,
            "offers": each.offers,
            "examples": [named(place.offer) for place in each.examples],
        }
        for each in reasons
    ]


def workload(read: Analysis | None) -> list[dict[str, str]]:
    rows = summary(read) if read is not None else ()
    return [
        {"what": row.what, "value": row.value, "sure": row.sure, "where": row.where, "because": row.because}
        for row in rows
    ]


def lints(read: Analysis | None) -> list[dict[str, Any]]:
    return [
        {"code": lint.code, "says": lint.says, "do": lint.do, "file": lint.file, "line": lint.line}
        for lint in (read.lints if read is not None else ())
    ]


def _span(span: Span) -> dict[str, float]:
    return {"expected": span.expected, "low": span.low, "high": span.high}
