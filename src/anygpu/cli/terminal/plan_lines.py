"""The text that `anygpu plan` and `explain` print about offers."""

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from anygpu.cli.terminal import formatting, output

MAX_CONS = 3
WIDE_COLUMNS = 110  # terminals at least this wide show intervals next to expected values
NOT_CONFIGURED = "* needs an account: `anygpu backend add NAME --kind KIND`"
NO_BACKEND = "** for comparison only: anygpu has no backend for this cloud yet"
HEADING = ("", "WHERE", "GPU", "TIME", "COST", "CONFIDENCE", "MACHINE")


def workload_lines(plan: Mapping[str, Any]) -> list[str]:
    if not plan["workload"]:
        return [
            "The code does not show how long the job takes, so the predicted times are rough guesses.",
            "",
        ]
    rows = [(row["what"], row["value"], row["sure"], row["where"]) for row in plan["workload"]]
    return [*output.table(("FOUND", "VALUE", "CONFIDENCE", "WHERE"), rows), ""]


def offer_lines(plan: Mapping[str, Any], *, every: bool = False, rejected: bool = False) -> list[str]:
    """Return the lines that list the offers, best first.

    If `rejected` is true, the caller lists the rejected offers itself, so the lines do not summarise them.
    """
    shown = plan["offers"] if every else plan["short"]
    if not shown:
        return (
            ["No offer fits this job."]
            if rejected
            else ["No offer fits this job; --rejected shows why.", *_top_rejections(plan)]
        )
    beyond = len(plan["offers"]) + plan["more_offers"] - len(shown)
    more = [f"{formatting.plural(beyond, 'more offer')}; --limit 0 shows all."] if beyond > 0 else []
    marks = {account_mark(entry) for entry in shown}
    more += [text for mark, text in (("*", NOT_CONFIGURED), ("**", NO_BACKEND)) if mark in marks]
    return [f"{plan['strategy']}:", *offer_table(shown), *more]


def offer_table(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return a table with a row for each offer, followed by the offer's advantages and disadvantages."""
    narrow = output.terminal_width() < WIDE_COLUMNS
    lines, rows = output.table_blocks(
        HEADING,
        [(str(number), *offer_cells(entry, narrow=narrow)) for number, entry in enumerate(entries, 1)],
    )
    between = [] if lines else [""]
    for row, entry in zip(rows, entries, strict=True):
        worst_case = worst_case_text(entry) if narrow else ""
        text = "; ".join(filter(None, (nodes_text(entry), worst_case, reasons_text(entry))))
        reasons = (output.paint(line, "dim", on=output.use_colour()) for line in _wrap(text))
        lines += [*row, *reasons, *between]
    return lines


def _wrap(text: str) -> list[str]:
    """Wrap the text below a table row to the terminal's width, indented."""
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
        gpu_text(entry),
        time if narrow else f"{time} (to {formatting.duration(seconds['high'])})",
        price if narrow else f"{price} (to {_rounded_money(cost['high'])})",
        entry["confidence"],
        machine_text(entry),
    )


def gpu_text(entry: Mapping[str, Any]) -> str:
    """Return the GPUs of an offer, such as `8 x A100`; `2 x 8 x A100` for two nodes."""
    nodes = f"{entry['nodes']} x " if entry.get("nodes", 1) > 1 else ""
    if entry["gpus"]:
        return f"{nodes}{entry['gpus']} x {entry['gpu']}"
    return f"{nodes}CPU" if nodes else "-"


def nodes_text(entry: Mapping[str, Any]) -> str:
    """Return the price of one node and of all, and the network between them; empty for one node."""
    nodes = entry.get("nodes", 1)
    if nodes == 1:
        return ""
    price = entry["price_microusd_per_hour"]
    prices = f" at {formatting.money(price)}/h, {formatting.money(price * nodes)}/h together" if price else ""
    return f"{nodes} nodes{prices}, over {entry['interconnect']}"


def worst_case_text(entry: Mapping[str, Any]) -> str:
    seconds, cost = entry["seconds"]["high"], entry["cost_microusd"]["high"]
    return f"worst case {formatting.duration(seconds)}, {_rounded_money(cost)}"


def location_text(entry: Mapping[str, Any]) -> str:
    return f"{entry['backend']}{account_mark(entry)} {entry['zone'] or entry['region']}".strip()


def account_mark(entry: Mapping[str, Any]) -> str:
    """Return the mark of an offer's cloud: empty if configured, `*` if it could be, `**` if anygpu has no backend."""
    if entry["configured"]:
        return ""
    return "*" if entry.get("has_backend", True) else "**"


def machine_text(entry: Mapping[str, Any]) -> str:
    return f"{entry['name']}{' spot' if entry['interruptible'] else ''}"


def rejected_lines(plan: Mapping[str, Any]) -> list[str]:
    rows = [
        (str(each["offers"]), each["reason"], ", ".join(_offer_name(one) for one in each["examples"]))
        for each in plan["rejected"]
    ]
    return ["", *output.table(("OFFERS", "REASON", "FOR EXAMPLE"), rows)] if rows else []


def advice_lines(plan: Mapping[str, Any]) -> list[str]:
    lines = [line for lint in plan["lints"] for line in _lint_lines(lint)]
    return ["", "To make it cheaper or safer:", *lines] if lines else []


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
    """Format a predicted amount in dollars. Below ten cents, two significant digits are shown."""
    dollars = microusd / 1_000_000
    if not dollars:
        return formatting.money(microusd)
    return f"${dollars:.2f}" if dollars >= 0.1 else f"${float(f'{dollars:.2g}'):g}"


def _top_rejections(plan: Mapping[str, Any]) -> list[str]:
    return [
        line
        for each in plan["rejected"][:3]
        for line in output.wrap(f"{each['offers']:>5} offers: {each['reason']}", "  ", " " * 9)
    ]


def _offer_name(entry: Mapping[str, Any]) -> str:
    return " ".join(part for part in (entry["backend"], entry["name"], entry["region"]) if part)
