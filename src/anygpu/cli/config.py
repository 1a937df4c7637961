"""`anygpu config`: settings, and where each came from."""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import click

from anygpu import settings
from anygpu.cli import table
from anygpu.cli.connection import json_option
from anygpu.cli.groups import Named
from anygpu.cli.output import emit, emit_json


@click.group(name="config", cls=Named)
def command() -> None:
    """Settings and where each came from."""


@command.command(name="show")
@click.argument("prefix", default="")
@click.option("--changed", is_flag=True, help="Only what is not the default.")
@json_option
def show(prefix: str, changed: bool, as_json: bool) -> None:
    """Every setting, or those that begin with PREFIX; the file is named in the last line."""
    every = [*settings.rows(settings.load())]
    rows = [row for row in every if row.key.startswith(prefix)]
    if not rows:
        raise click.UsageError(f"There is no setting {prefix!r}.{_near(prefix, every)}")
    rows = [row for row in rows if not changed or row.origin != settings.DEFAULT]
    file = settings.config_path()
    if as_json:
        emit_json({"file": str(file), "settings": [_plain(row) for row in rows]})
        return
    cells = [(row.key, _text(row.value), row.origin, row.about) for row in rows]
    emit(table.table(("SETTING", "VALUE", "FROM", "WHAT"), cells))
    emit(
        [
            "",
            f"file: {file}{'' if file.exists() else ' (not there yet)'}; environment: ANYGPU_<SECTION>__<NAME>",
        ]
    )


def _near(prefix: str, every: Sequence[settings.Row]) -> str:
    close = get_close_matches(prefix, [row.key for row in every], n=1)
    return f" Did you mean {close[0]!r}?" if close else " `anygpu config show` lists all."


def _plain(row: settings.Row) -> dict[str, Any]:
    value = list(row.value) if isinstance(row.value, tuple) else row.value
    default = list(row.default) if isinstance(row.default, tuple) else row.default
    return {"key": row.key, "value": value, "origin": row.origin, "default": default, "about": row.about}


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "-"
    return "-" if value == "" else str(value)
