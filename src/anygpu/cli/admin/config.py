"""`anygpu config` and `anygpu version`: show settings and versions."""

import platform
from typing import Any

import click

from anygpu import __version__, settings
from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.root import SuggestingGroup
from anygpu.cli.terminal import output
from anygpu.cli.terminal.output import emit, emit_json
from anygpu.errors import AnygpuError
from anygpu.suggest import suggestion


@click.group(name="config", cls=SuggestingGroup)
def config_command() -> None:
    """Show settings and where each comes from."""


@config_command.command(name="show")
@click.argument("prefix", default="")
@click.option("--changed", is_flag=True, help="Only settings that differ from the default.")
@json_option
def show_config(prefix: str, changed: bool, as_json: bool) -> None:
    """Show all settings, or those whose names start with PREFIX. The last line names the settings file."""
    every = [*settings.setting_rows(settings.load())]
    rows = [row for row in every if row.key.startswith(prefix)]
    if not rows:
        hint = suggestion(prefix, [row.key for row in every], "`anygpu config show` lists all settings.")
        raise click.UsageError(f"There is no setting {prefix!r}. {hint}")
    rows = [row for row in rows if not changed or row.origin != settings.DEFAULT]
    file = settings.config_path()
    if as_json:
        emit_json({"file": str(file), "settings": [_row_dict(row) for row in rows]})
        return
    cells = [(row.key, _value_text(row.value), row.origin, row.about) for row in rows]
    emit(output.table(("SETTING", "VALUE", "SOURCE", "DESCRIPTION"), cells))
    emit(
        [
            "",
            f"Settings file: {file}{'' if file.exists() else ' (does not exist)'}. "
            "Environment variables: ANYGPU_<SECTION>__<NAME>.",
        ]
    )


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
    """Show the versions of client and server."""
    server = None
    try:
        server = connect(context_name).whoami().get("server_version")
        server_line = f"server {server}"
    except AnygpuError as error:
        server_line = str(error)
    if as_json:
        emit_json({"client": __version__, "python": platform.python_version(), "server": server})
    else:
        emit([f"anygpu {__version__} (Python {platform.python_version()})", server_line])
