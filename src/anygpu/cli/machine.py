"""`anygpu machine`: what of ours exists at the providers, and what it costs."""

from typing import Any

import click

from anygpu.cli import paint, table, words
from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.groups import Named
from anygpu.cli.output import emit, emit_json

HEADING = ("MACHINE", "BACKEND", "TYPE", "JOB", "STATE", "FOR", "PRICE", "COST")


@click.group(name="machine", cls=Named)
def command() -> None:
    """Machines at the providers: whose they are and what they cost."""


@command.command(name="ls")
@json_option
@context_option
def list_machines(as_json: bool, context_name: str) -> None:
    """Every machine of the project; for operators also those nobody owns, and what machines left behind."""
    found = connect(context_name).machines()
    if as_json:
        emit_json(found)
        return
    machines, leftovers = found["machines"], found["leftovers"]
    emit(_machines(machines) if machines else ["no machines; nothing is billing"])
    if leftovers:
        emit(["", *_leftovers(leftovers)])
    for backend, why in found["silent"].items():
        emit(["", paint.paint(f"{backend} does not answer: {why}", "red", on=paint.wanted())])


@command.command(name="rm")
@click.argument("name")
@click.option("--force", is_flag=True, help="Even though a job uses it; the job goes on elsewhere.")
@json_option
@context_option
def remove(name: str, force: bool, as_json: bool, context_name: str) -> None:
    """End the machine NAME."""
    connect(context_name).end_machine(name, force=force)
    emit_json({"name": name, "ending": True}) if as_json else emit([f"ending {name}"])


@command.command(name="release")
@click.argument("job", default="last")
@json_option
@context_option
def release(job: str, as_json: bool, context_name: str) -> None:
    """Give up the machine that is kept after JOB failed (`hold_on_failure`)."""
    answer = connect(context_name).release(job)
    emit_json(answer) if as_json else emit([f"the machine of {answer['name'] or answer['id']} is given up"])


@command.command(name="ssh")
@click.argument("job", default="last")
@click.argument("words_after", nargs=-1, metavar="[COMMAND]...")
@json_option
@context_option
def ssh(job: str, words_after: tuple[str, ...], as_json: bool, context_name: str) -> None:
    """A shell on the machine of JOB, or one COMMAND there; --json only tells how to log in."""
    from anygpu.cli.shell import enter

    enter(connect(context_name), job, words_after, as_json=as_json)


def _machines(machines: list[dict[str, Any]]) -> list[str]:
    return table.table(HEADING, [_row(each) for each in machines])


def _row(each: dict[str, Any]) -> tuple[str, ...]:
    kind = f"{each['offer'] or '-'}{' spot' if each['interruptible'] else ''}"
    return (
        each["name"],
        each["backend"],
        kind,
        each["job_name"] or (words.short_id(each["job"]) if each["job"] else "-"),
        each["state"],
        words.duration(words.since(each["since"])),
        f"{words.money(each['price_microusd_per_hour'])}/h" if each["job"] else "-",
        words.money(each["cost_microusd"]) if each["cost_microusd"] is not None else "-",
    )


def _leftovers(leftovers: list[dict[str, Any]]) -> list[str]:
    rows = [(each["kind"], each["id"], each["backend"], each["name"] or "-") for each in leftovers]
    return table.table(("LEFTOVER", "ID", "BACKEND", "OF"), rows)
