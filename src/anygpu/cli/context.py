"""`anygpu context`: the servers you are logged in to."""

import click

from anygpu.cli import table
from anygpu.cli.connection import json_option
from anygpu.cli.groups import Named
from anygpu.cli.output import emit, emit_json
from anygpu.sdk.context import EMBEDDED, contexts, find, save


@click.group(name="context", cls=Named)
def command() -> None:
    """The servers you are logged in to."""


@command.command(name="ls")
@json_option
def list_contexts(as_json: bool) -> None:
    """Every server, the one in use marked."""
    kept = contexts()
    current = find().name
    known = [
        {"name": EMBEDDED, "url": "this machine"},
        *({"name": c.name, "url": c.url} for c in kept.known.values()),
    ]
    if current == "environment":
        known.append({"name": current, "url": find().url})
    if as_json:
        emit_json({"current": current, "contexts": known})
        return
    rows = [("*" if each["name"] == current else "", each["name"], each["url"]) for each in known]
    emit(table.table(("", "NAME", "URL"), rows))


@command.command(name="use")
@click.argument("name")
@json_option
def use(name: str, as_json: bool) -> None:
    """Use NAME from now on; `local` is the server of this machine."""
    save(contexts().using(name))
    emit_json({"current": name}) if as_json else emit([f"{name} is in use"])


@command.command(name="rm")
@click.argument("name")
@json_option
def remove(name: str, as_json: bool) -> None:
    """Forget NAME and its token."""
    if name == EMBEDDED:
        raise click.UsageError("The server of this machine cannot be forgotten.")
    left = contexts().removed(name)
    save(left)
    emit_json({"removed": name, "current": left.current}) if as_json else emit(
        [f"forgot {name}; {left.current} is in use"]
    )
