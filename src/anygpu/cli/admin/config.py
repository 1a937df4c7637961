"""`anygpu config` and `anygpu version`: show settings and versions."""

import platform
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import click

from anygpu import __version__, settings
from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.root import SuggestingGroup
from anygpu.cli.terminal import output
from anygpu.cli.terminal.output import emit, emit_json
from anygpu.errors import AnygpuError


@click.group(name="config", cls=SuggestingGroup)
def config_command() -> None:
    """Settings and where each came from."""


@config_command.command(name="show")
@click.argument("prefix", default="")
@click.option("--changed", is_flag=True, help="Only what is not the default.")
@json_option
def show_config(prefix: str, changed: bool, as_json: bool) -> None:
    """Every setting, or those that begin with PREFIX; the file is named in the last line."""
    every = [*settings.setting_rows(settings.load())]
    rows = [row for row in every if row.key.startswith(prefix)]
    if not rows:
        raise click.UsageError(f"There is no setting {prefix!r}.{_suggestion(prefix, every)}")
    rows = [row for row in rows if not changed or row.origin != settings.DEFAULT]
    file = settings.config_path()
    if as_json:
        emit_json({"file": str(file), "settings": [_row_dict(row) for row in rows]})
        return
    cells = [(row.key, _value_text(row.value), row.origin, row.about) for row in rows]
    emit(output.table(("SETTING", "VALUE", "FROM", "WHAT"), cells))
    emit(
        [
            "",
            f"file: {file}{'' if file.exists() else ' (not there yet)'}; environment: ANYGPU_<SECTION>__<NAME>",
        ]
    )


def _suggestion(prefix: str, every: Sequence[settings.SettingRow]) -> str:
    close = get_close_matches(prefix, [row.key for row in every], n=1)
    return f" Did you mean {close[0]!r}?" if close else " `anygpu config show` lists all."


def _row_dict(row: settings.SettingRow) -> dict[str, Any]:
    value = list(row.value) if isinstance(row.value, tuple) else row.value
    default = list(row.default) if isinstance(row.default, tuple) else row.default
    return {"key": row.key, "value": value, "origin": row.origin, "default": default, "about": row.about}


def _value_text(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(value) or "-"
    return "-" if value == "" else str(value)


@click.command(name="version")
@json_option
@context_option
def version_command(as_json: bool, context_name: str) -> None:
    """Versions of the client and of the server."""
    server, said = None, "no server runs"
    try:
        server = connect(context_name).whoami().get("server_version")
        said = f"server {server}"
    except AnygpuError as error:
        said = str(error)
    if as_json:
        emit_json({"client": __version__, "python": platform.python_version(), "server": server})
    else:
        emit([f"anygpu {__version__} (Python {platform.python_version()})", said])
