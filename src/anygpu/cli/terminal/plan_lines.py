"""The text that `anygpu plan` and `explain` print about offers."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from anygpu.cli.terminal import formatting, output

MAX_CONS = 3
WIDE_COLUMNS = 110  # columns, for intervals beside what is expected
NOT_CONFIGURED = "* you have no account configured there: anygpu backend add"
HEADING = ("", "WHERE", "GPU", "TIME", "COST", "SURE", "MACHINE")


def workload_lines(told: Mapping[str, Any]) -> list[str]:
    if not told["workload"]:
        return ["nothing was read of the code: times are a wide guess", ""]
    rows = [(row["what"], row["value"], row["sure"], row["where"]) for row in told["workload"]]
    return [*output.table(("FOUND", "VALUE", "SURE", "WHERE"), rows), ""]


def offer_lines(told: Mapping[str, Any], *, every: bool = False, rejected: bool = False) -> list[str]:
    """The places, best first. `rejected`: what is out of the question follows, so it is not summed up here."""
    shown = told["offers"] if every else told["short"]
    if not shown:
        return (
            ["no offer fits"] if rejected else ["no offer fits; --rejected says why", *_top_rejections(told)]
        )
    beyond = len(told["offers"]) + told["more_offers"] - len(shown)
    more = [f"and {formatting.plural(beyond, 'offer')} more; --limit 0 shows them"] if beyond > 0 else []
    more += [] if all(entry["configured"] for entry in shown) else [NOT_CONFIGURED]
    return [f"{told['strategy']}:", *offer_table(shown), *more]


def offer_table(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """A row for each, and under it what speaks for and against it, and on a narrow screen what is expected at worst."""
    narrow = output.terminal_width() < WIDE_COLUMNS
    heading, *rows = output.table(
        HEADING, [(str(place), *offer_cells(entry, narrow=narrow)) for place, entry in enumerate(entries, 1)]
    )
    lines = [heading]
    for row, entry in zip(rows, entries, strict=True):
        said = "; ".join(filter(None, (worst_case_text(entry) if narrow else "", reasons_text(entry))))
        lines += [row, *(output.paint(line, "dim", on=output.use_colour()) for line in _wrap(said))]
    return lines


def _wrap(text: str) -> list[str]:
    """Within the terminal, under what it belongs to."""
    return textwrap.wrap(text, output.terminal_width(), initial_indent="   ", subsequent_indent="   ")


def reasons_text(entry: Mapping[str, Any]) -> str:
    waits = [f"waits: {entry['wait']}"] if entry["wait"] else []
    against = ", ".join(entry["cons"][:MAX_CONS])
    return "; ".join((*waits, *entry["pros"], *([f"but {against}"] if against else [])))


def offer_cells(entry: Mapping[str, Any], *, narrow: bool = False) -> tuple[str, ...]:
    seconds, cost = entry["seconds"], entry["cost_microusd"]
    time, price = formatting.duration(seconds["expected"]), _rounded_money(cost["expected"])
    return (
        location_text(entry),
        f"{entry['gpus']} x {entry['gpu']}" if entry["gpus"] else "-",
        time if narrow else f"{time} (to {formatting.duration(seconds['high'])})",
        price if narrow else f"{price} (to {_rounded_money(cost['high'])})",
        entry["confidence"],
        machine_text(entry),
    )


def worst_case_text(entry: Mapping[str, Any]) -> str:
    seconds, cost = entry["seconds"]["high"], entry["cost_microusd"]["high"]
    return f"at worst {formatting.duration(seconds)}, {_rounded_money(cost)}"


def location_text(entry: Mapping[str, Any]) -> str:
    mark = "" if entry["configured"] else "*"
    return f"{entry['backend']}{mark} {entry['zone'] or entry['region']}".strip()


def machine_text(entry: Mapping[str, Any]) -> str:
    return f"{entry['name']}{' spot' if entry['interruptible'] else ''}"


def rejected_lines(told: Mapping[str, Any]) -> list[str]:
    rows = [
        (str(each["offers"]), each["reason"], ", ".join(_offer_name(one) for one in each["examples"]))
        for each in told["rejected"]
    ]
    return ["", *output.table(("OFFERS", "OUT BECAUSE IT", "FOR EXAMPLE"), rows)] if rows else []


def advice_lines(told: Mapping[str, Any]) -> list[str]:
    said = [line for lint in told["lints"] for line in _lint_lines(lint)]
    return ["", "what would make it cheaper or safer:", *said] if said else []


def _lint_lines(lint: Mapping[str, Any]) -> list[str]:
    place = f"{lint['file']}:{lint['line']}: " if lint["line"] else ""
    return textwrap.wrap(
        f"{place}{lint['says']} {lint['do']}",
        output.terminal_width(),
        initial_indent=" - ",
        subsequent_indent="   ",
        break_on_hyphens=False,
    )


def _rounded_money(microusd: int) -> str:
    """Two figures are enough for what is predicted."""
    dollars = microusd / 1_000_000
    return formatting.money(microusd) if dollars >= 1 or not dollars else f"${float(f'{dollars:.2g}'):g}"


def _top_rejections(told: Mapping[str, Any]) -> list[str]:
    return [f"  {each['offers']:>5} offers: {each['reason']}" for each in told["rejected"][:3]]


def _offer_name(entry: Mapping[str, Any]) -> str:
    return " ".join(part for part in (entry["backend"], entry["name"], entry["region"]) if part)
