"""Ask the user of `anygpu run` whether a machine that costs money may be rented."""

import sys
from collections.abc import Callable, Mapping
from typing import Any

import click

from anygpu.cli import exits
from anygpu.cli.exits import print_message
from anygpu.errors import NeedsPaidConsent

RENT, WAIT, CANCEL = "r", "w", "c"
ENTER = "\n\r"
Submit = Callable[[Mapping[str, Any]], dict[str, Any]]


class ConsentingSubmission:
    """Submits a job, and asks the user on the terminal if only paid machines can run it. The user is asked once.

    If `asks` is false, or without a terminal, the server's refusal is raised. It names the option that allows paid
    machines.
    """

    def __init__(self, submit: Submit, *, asks: bool) -> None:
        self._submit = submit
        self._asks = asks and sys.stdin.isatty() and sys.stderr.isatty()
        self._answer: bool | None = None  # whether the user allows paid machines

    def __call__(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        try:
            return self._submit(self._with_answer(spec))
        except NeedsPaidConsent as error:
            if not self._asks or self._answer is not None:
                raise
            self._answer = _ask(error.details) == RENT
        return self._submit(self._with_answer(spec))

    def _with_answer(self, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        if self._answer is None:
            return spec
        return {**spec, "placement": {**(spec.get("placement") or {}), "paid": self._answer}}


def _ask(refusal: Mapping[str, Any]) -> str:
    """Show the best offer and ask what to do; return RENT or WAIT. Exit if the user cancels."""
    from anygpu.cli.jobs.follow import read_key

    reasons = "; ".join(f"{each['backend']}: {each['reason']}" for each in refusal.get("reasons") or ())
    print_message(
        f"Only machines that cost money can run this job{f' ({reasons})' if reasons else ''}."
        f" The best offer is {offer_text(refusal['offer'])}."
    )
    try:
        key = read_key(
            f"{RENT}{WAIT}{CANCEL}{ENTER}",
            "anygpu: Rent it (r), wait for a machine of your own (w), or cancel (c or Enter)? ",
        )
    except EOFError:
        key = CANCEL
    print(key if key not in ENTER else "", file=sys.stderr)
    if key not in (RENT, WAIT):
        print_message("Nothing was submitted.")
        raise click.exceptions.Exit(exits.REFUSED)
    return key


def offer_text(offer: Mapping[str, Any]) -> str:
    """Describe an offer: place, GPUs, price per hour, and predicted total cost and time if they are known."""
    from anygpu.cli.terminal import formatting

    nodes = offer.get("nodes") or 1
    each = f"{nodes} nodes with " if nodes > 1 else ""
    gpus = f", {each}{offer['gpus']} x {offer['gpu']}" if offer.get("gpus") else ""
    price = offer.get("total_price_microusd_per_hour") or offer["price_microusd_per_hour"]
    text = f"{formatting.place(offer)}{gpus}: {formatting.hourly_price(price)}"
    if offer.get("cost_microusd") is None:
        return f"{text}; the total cost is unknown"
    total, seconds = formatting.money(offer["cost_microusd"]), formatting.duration(offer["seconds"])
    return f"{text}, about {total} and {seconds} in total"
