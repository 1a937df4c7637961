"""`anygpu plan`: where a job could run, how long it would take, what it would cost, and why. Nothing happens yet."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anygpu.cli import catalog, paint, run, table, words
from anygpu.cli.jobfile import asked
from anygpu.cli.output import emit, emit_json

if TYPE_CHECKING:
    from anygpu.plan.analyse import Analysis
    from anygpu.plan.planner import Line, Place, Planned
    from anygpu.spec.model import JobSpec

NOT_OURS = {"no_check", "no_workdir", "detach", "dry_run", "key", "context_name"}  # of submitting
UNSENT = {"no_check": True, "no_workdir": True, "detach": False, "dry_run": True, "key": None}
BESIDE = (".py", ".yaml", ".yml", ".json", ".toml")
MOST_FILES, MOST_BYTES = 200, 2 * 1024 * 1024
HEADING = ("", "WHERE", "MACHINE", "GPU", "TIME", "COST", "SURE", "WHY")


@click.command(
    cls=run.RunCommand,
    name="plan",
    params=[param for param in run.command.params if param.name not in NOT_OURS],
    context_settings=run.command.context_settings,
)
@click.option("--limit", default=8, help="How many machines to show; 0 shows every offer. Default 8.")
@click.option("--rejected", is_flag=True, help="Show what is out of the question, and why.")
@click.pass_context
def command(
    context: click.Context,
    /,
    target: tuple[str, ...],
    as_json: bool,
    limit: int,
    rejected: bool,
    **flags: Any,
) -> None:
    """Where a job could run, how long it would take, what it would cost, and why. Nothing is started.

    \b
      anygpu plan train.py --epochs 3
      anygpu plan --on fastest train.py
      anygpu plan job.yaml --max-cost 10 --deadline 6h

    The code is read, never run. Prices are the catalog's (anygpu catalog).
    """
    if not target and not flags["trainer"]:
        raise click.UsageError("Nothing to plan: give a script, a job file or a --trainer.", context)
    wanted = asked(target, {**flags, **UNSENT}, is_command=bool(context.meta.get(run.COMMAND)))
    from anygpu.plan.planner import planned
    from anygpu.spec.load import from_document

    spec = from_document(wanted.document)
    read = _read(spec)
    found = planned(spec, read, _places(spec), deadline_s=_deadline_s(spec))
    if as_json:
        emit_json(_plain(found, read))
        return
    emit([*_workload(read), *_table(found, limit), *(_rejected(found) if rejected else [])])
    emit(_advice(read))


def _read(spec: "JobSpec") -> "Analysis | None":
    from anygpu.plan.analyse import analyse

    if spec.code is not None:
        return analyse(spec.code, name="code")
    script = Path(spec.script or "")
    if not spec.script or not script.is_file():
        return None
    return analyse(script.read_bytes()[:MOST_BYTES], name=spec.script, args=spec.args, files=_beside(script))


def _beside(script: Path) -> dict[str, bytes]:
    """Modules and configuration near the script, which it may import or read."""
    near = sorted(path for path in script.parent.rglob("*") if path.suffix in BESIDE and path != script)
    small = [path for path in near[:MOST_FILES] if path.is_file() and path.stat().st_size <= MOST_BYTES]
    return {path.as_posix(): path.read_bytes() for path in small}


def _places(spec: "JobSpec") -> "list[Place]":
    from anygpu.plan.planner import Place

    found = catalog.opened().candidates(spec.resources, dedicated=spec.placement.dedicated)
    shown = found if spec.placement.region else found.one_per_shape()
    return [
        Place(
            offer=each.offer(),
            boot_s=each.setup_s,
            egress_microusd_per_gib=each.egress_microusd_per_gib or 0,
            stale_days=each.age_days if each.stale else 0,
        )
        for each in shown
    ]


def _deadline_s(spec: "JobSpec") -> float | None:
    from datetime import UTC, datetime

    if spec.limits.deadline_at is not None:
        return (spec.limits.deadline_at - datetime.now(UTC)).total_seconds()
    return spec.limits.deadline_s


def _workload(read: "Analysis | None") -> list[str]:
    if read is None:
        return ["nothing was read of the code: times are a wide guess", ""]
    from anygpu.plan.analyse import summary

    rows = [(row.what, row.value, row.sure, row.where) for row in summary(read)]
    return [*table.table(("FOUND", "VALUE", "SURE", "WHERE"), rows), ""]


def _table(found: "Planned", limit: int) -> list[str]:
    lines = found.short(limit) if limit else found.lines
    if not lines:
        return ["no offer fits; --rejected says why", *_commonest(found)]
    rows = [(str(place), *_cells(line)) for place, line in enumerate(lines, 1)]
    beyond = len(found.lines) - len(lines)
    more = [f"and {words.plural(beyond, 'offer')} more; --limit 0 shows them"] if beyond else []
    return [f"{found.strategy}:", *table.table(HEADING, rows), *more]


def _cells(line: "Line") -> tuple[str, ...]:
    offer, bill = line.place.offer, line.bill
    return (
        f"{offer.backend} {offer.region}".strip(),
        offer.name + (" spot" if offer.interruptible else ""),
        f"{offer.gpu_count} x {offer.gpu_kind}" if offer.gpu_count else "-",
        f"{words.duration(bill.wall_s.expected)} (to {words.duration(bill.wall_s.high)})",
        f"{words.money(round(bill.cost_microusd.expected))} (to {words.money(round(bill.cost_microusd.high))})",
        line.confidence,
        "; ".join((*line.pros, *(f"but {con}" for con in line.cons[:2]))),
    )


def _rejected(found: "Planned") -> list[str]:
    rows = [
        (
            f"{line.place.offer.backend} {line.place.offer.region}".strip(),
            line.place.offer.name,
            line.rejected,
        )
        for line in found.rejected[:200]
    ]
    return ["", *table.table(("WHERE", "MACHINE", "OUT BECAUSE IT"), rows)] if rows else []


def _commonest(found: "Planned") -> list[str]:
    from collections import Counter

    counted = Counter(line.rejected for line in found.rejected)
    return [f"  {count:>5} offers: {why}" for why, count in counted.most_common(3)]


def _advice(read: "Analysis | None") -> list[str]:
    on = paint.wanted()
    lints = read.lints if read is not None else ()
    said = [
        paint.paint(f"{lint.file}:{lint.line}: " if lint.line else "", "dim", on=on)
        + f"{lint.says} {lint.do}"
        for lint in lints
    ]
    return ["", "what would make it cheaper or safer:", *(f"  {text}" for text in said)] if said else []


def _plain(found: "Planned", read: "Analysis | None") -> dict[str, Any]:
    return {
        "strategy": found.strategy,
        "offers": [_entry(line) for line in found.lines],
        "rejected": [{**_named(line), "reason": line.rejected} for line in found.rejected],
        "lints": [
            {"code": lint.code, "says": lint.says, "do": lint.do, "file": lint.file, "line": lint.line}
            for lint in (read.lints if read is not None else ())
        ],
    }


def _entry(line: "Line") -> dict[str, Any]:
    bill = line.bill
    return {
        **_named(line),
        "score": line.score,
        "price_microusd_per_hour": line.place.offer.price_microusd_per_hour,
        "seconds": {"expected": bill.wall_s.expected, "low": bill.wall_s.low, "high": bill.wall_s.high},
        "cost_microusd": {
            "expected": round(bill.cost_microusd.expected),
            "low": round(bill.cost_microusd.low),
            "high": round(bill.cost_microusd.high),
        },
        "confidence": line.confidence,
        "pros": list(line.pros),
        "cons": list(line.cons),
    }


def _named(line: "Line") -> dict[str, Any]:
    offer = line.place.offer
    return {
        "backend": offer.backend,
        "name": offer.name,
        "region": offer.region,
        "gpu": offer.gpu_kind,
        "gpus": offer.gpu_count,
        "interruptible": offer.interruptible,
    }
