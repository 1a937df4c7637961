"""`anygpu secret`: values jobs need and nobody should see. Never on the command line, where others can read them."""

import sys

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.groups import Named
from anygpu.cli.output import emit, emit_json


@click.group(name="secret", cls=Named)
def command() -> None:
    """Values jobs need and nobody should see."""


@command.command(name="set")
@click.argument("name")
@json_option
@context_option
def set_secret(name: str, as_json: bool, context_name: str) -> None:
    """Store the value of NAME, read from standard input or asked for without showing it."""
    value = asked(f"value of {name}")
    if not value:
        raise click.UsageError("The value is empty; type it, or pipe it in: `anygpu secret set NAME < file`.")
    connect(context_name, start=True).set_secret(name, value)
    emit_json({"name": name, "stored": True}) if as_json else emit(
        [f"stored {name}; use it with --secret {name}"]
    )


@command.command(name="ls")
@json_option
@context_option
def list_secrets(as_json: bool, context_name: str) -> None:
    """The names; values are never shown."""
    found = connect(context_name).secrets()
    if as_json:
        emit_json(found)
        return
    emit([each["name"] for each in found["secrets"]] or ["no secrets; `anygpu secret set NAME` stores one"])


@command.command(name="rm")
@click.argument("name")
@json_option
@context_option
def remove_secret(name: str, as_json: bool, context_name: str) -> None:
    """Forget NAME."""
    connect(context_name).remove_secret(name)
    emit_json({"name": name, "removed": True}) if as_json else emit([f"removed {name}"])


def asked(what: str) -> str:
    """A value typed unseen, or the whole of standard input without its last line end."""
    if sys.stdin.isatty():
        return str(click.prompt(what, hide_input=True, err=True))
    return sys.stdin.read().removesuffix("\n").removesuffix("\r")
