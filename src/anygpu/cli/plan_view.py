"""A plan on the screen: what was found in the code, the places, what is out, and what would help."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from anygpu.cli import paint, table, words

MOST_CONS = 3
WIDE = 110  # columns, for intervals beside what is expected
NOT_CONFIGURED = "* you have no account configured there: anygpu backend add"
HEADING = ("", "WHERE", "GPU", "TIME", "COST", "SURE", "MACHINE")


def workload(told: Mapping[str, Any]) -> list[str]:
    if not told["workload"]:
        return ["nothing was read of the code: times are a wide guess", ""]
    rows = [(row["what"], row["value"], row["sure"], row["where"]) for row in told["workload"]]
    return [*table.table(("FOUND", "VALUE", "SURE", "WHERE"), rows), ""]


def offers(told: Mapping[str, Any], *, every: bool = False, rejected: bool = False) -> list[str]:
    """The places, best first. `rejected`: what is out of the question follows, so it is not summed up here."""
    shown = told["offers"] if every else told["short"]
    if not shown:
        return ["no offer fits"] if rejected else ["no offer fits; --rejected says why", *_commonest(told)]
    beyond = len(told["offers"]) + told["more_offers"] - len(shown)
    more = [f"and {words.plural(beyond, 'offer')} more; --limit 0 shows them"] if beyond > 0 else []
    more += [] if all(entry["configured"] for entry in shown) else [NOT_CONFIGURED]
    return [f"{told['strategy']}:", *with_reasons(shown), *more]


def with_reasons(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """A row for each, and under it what speaks for and against it, and on a narrow screen what is expected at worst."""
    narrow = table.width() < WIDE
    heading, *rows = table.table(
        HEADING, [(str(place), *cells(entry, narrow=narrow)) for place, entry in enumerate(entries, 1)]
    )
    lines = [heading]
    for row, entry in zip(rows, entries, strict=True):
        said = "; ".join(filter(None, (at_worst(entry) if narrow else "", reasons(entry))))
        lines += [row, *(paint.paint(line, "dim", on=paint.wanted()) for line in _wrapped(said))]
    return lines


def _wrapped(text: str) -> list[str]:
    """Within the terminal, under what it belongs to."""
    return textwrap.wrap(text, table.width(), initial_indent="   ", subsequent_indent="   ")


def reasons(entry: Mapping[str, Any]) -> str:
    waits = [f"waits: {entry['wait']}"] if entry["wait"] else []
    against = ", ".join(entry["cons"][:MOST_CONS])
    return "; ".join((*waits, *entry["pros"], *([f"but {against}"] if against else [])))


def cells(entry: Mapping[str, Any], *, narrow: bool = False) -> tuple[str, ...]:
    seconds, cost = entry["seconds"], entry["cost_microusd"]
    time, price = words.duration(seconds["expected"]), _money(cost["expected"])
    return (
        where(entry),
        f"{entry['gpus']} x {entry['gpu']}" if entry["gpus"] else "-",
        time if narrow else f"{time} (to {words.duration(seconds['high'])})",
        price if narrow else f"{price} (to {_money(cost['high'])})",
        entry["confidence"],
        machine(entry),
    )


def at_worst(entry: Mapping[str, Any]) -> str:
    seconds, cost = entry["seconds"]["high"], entry["cost_microusd"]["high"]
    return f"at worst {words.duration(seconds)}, {_money(cost)}"


def where(entry: Mapping[str, Any]) -> str:
    mark = "" if entry["configured"] else "*"
    return f"{entry['backend']}{mark} {entry['zone'] or entry['region']}".strip()


def machine(entry: Mapping[str, Any]) -> str:
    return f"{entry['name']}{' spot' if entry['interruptible'] else ''}"


def rejected(told: Mapping[str, Any]) -> list[str]:
    rows = [
        (str(each["offers"]), each["reason"], ", ".join(_named(one) for one in each["examples"]))
        for each in told["rejected"]
    ]
    return ["", *table.table(("OFFERS", "OUT BECAUSE IT", "FOR EXAMPLE"), rows)] if rows else []


def advice(told: Mapping[str, Any]) -> list[str]:
    said = [line for lint in told["lints"] for line in _lint(lint)]
    return ["", "what would make it cheaper or safer:", *said] if said else []


def _lint(lint: Mapping[str, Any]) -> list[str]:
    place = f"{lint['file']}:{lint['line']}: " if lint["line"] else ""
    return textwrap.wrap(
        f"{place}{lint['says']} {lint['do']}",
        table.width(),
        initial_indent=" - ",
        subsequent_indent="   ",
        break_on_hyphens=False,
    )


def _money(microusd: int) -> str:
    """Two figures are enough for what is predicted."""
    dollars = microusd / 1_000_000
    return words.money(microusd) if dollars >= 1 or not dollars else f"${float(f'{dollars:.2g}'):g}"


def _commonest(told: Mapping[str, Any]) -> list[str]:
    return [f"  {each['offers']:>5} offers: {each['reason']}" for each in told["rejected"][:3]]


def _named(entry: Mapping[str, Any]) -> str:
    return " ".join(part for part in (entry["backend"], entry["name"], entry["region"]) if part)
