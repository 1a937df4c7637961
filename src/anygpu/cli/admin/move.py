"""`anygpu server move`: move the server on this computer from SQLite to PostgreSQL."""

import json
import os
import re
import sys
import tomllib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anygpu.cli.connection import json_option
from anygpu.cli.exits import print_message
from anygpu.cli.root import SuggestingGroup
from anygpu.cli.terminal.formatting import plural
from anygpu.cli.terminal.output import emit, emit_json
from anygpu.errors import AnygpuError

if TYPE_CHECKING:
    from anygpu.settings import Settings
    from anygpu.wiring.move import MovePlan, MoveResult, ServerMove


@click.group(name="server", cls=SuggestingGroup)
def server_command() -> None:
    """Manage the database of the server on this computer."""


@server_command.command(name="move")
@click.option(
    "--to", "target", required=True, metavar="URL", help="Empty database: postgresql://user@host/name."
)
@click.option(
    "--blobs", default="", metavar="URL", help="Copy the stored files too, such as to s3://bucket/prefix."
)
@click.option(
    "--blob-option",
    "blob_options",
    multiple=True,
    metavar="NAME=VALUE",
    help="Option of the new blob store, as in store.blob_options. May be repeated.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be copied, and change nothing.")
@click.option(
    "--prepare",
    is_flag=True,
    help="Copy the database now, while the server may run. The move itself is then shorter.",
)
@click.option("--write-settings", is_flag=True, help="Write the new addresses to the settings file.")
@json_option
def move_server(
    target: str,
    blobs: str,
    blob_options: tuple[str, ...],
    dry_run: bool,
    prepare: bool,
    write_settings: bool,
    as_json: bool,
) -> None:
    """Move the server's database from SQLite to PostgreSQL, so that several servers can share it.

    Stop the server first with `anygpu down`; jobs keep running. If the command is interrupted, run it again: it
    continues. The SQLite file is kept, and no server starts on it any more.
    """
    from anygpu import settings
    from anygpu.sdk import embedded
    from anygpu.wiring.move import ServerMove

    loaded = settings.load(overrides={"state": embedded.state_dir()})
    progress = None if as_json else _Progress()
    move = ServerMove(
        loaded,
        target,
        blobs=blobs,
        blob_options=blob_options,
        on_progress=progress or (lambda what, done, total: None),
    )
    if dry_run:
        _show_plan(move.plan(), as_json)
        return
    if prepare:
        written = sum(move.prepare().values())
        text = f"Copied {written:,} rows. Now stop the server (`anygpu down`) and run the command without --prepare."
        emit_json({"prepared": written}) if as_json else emit([text])
        return
    _finish(move, loaded, target, blobs, blob_options, write_settings, as_json)


def _finish(
    move: "ServerMove",
    loaded: "Settings",
    target: str,
    blobs: str,
    blob_options: tuple[str, ...],
    write_settings: bool,
    as_json: bool,
) -> None:
    from anygpu.settings import config_path

    result = move.run()
    values: dict[str, Any] = {"database": target, **({"blobs": blobs} if blobs else {})}
    values |= {"blob_options": list(blob_options)} if blob_options else {}
    if write_settings:
        write_store_settings(config_path(), values)
    _warn_about_overrides(loaded, values)
    if as_json:
        emit_json({**_as_json(result), "settings": str(config_path()), "settings_written": write_settings})
        return
    emit([*_result_lines(result), *_settings_lines(config_path(), values, write_settings)])


class _Progress:
    """Prints how far the copy is. In a terminal one line is rewritten; elsewhere one line is printed per table."""

    def __init__(self) -> None:
        self._is_terminal = sys.stderr.isatty()

    def __call__(self, what: str, done: int, total: int) -> None:
        if self._is_terminal:
            end = "\n" if done >= total else ""
            sys.stderr.write(f"\r\x1b[K{what}: {done:,} of {total:,}{end}")
            sys.stderr.flush()
        elif done >= total:
            print_message(f"{what}: {total:,} of {total:,}")


def _show_plan(plan: "MovePlan", as_json: bool) -> None:
    if as_json:
        emit_json({**asdict(plan), "state": str(plan.state)})
    else:
        emit(_plan_lines(plan))


TARGET_STATES = {
    "empty": "is empty",
    "unfinished": "has an unfinished copy; the move continues it",
    "finished": "has a complete copy",
}


def _plan_lines(plan: "MovePlan") -> list[str]:
    lines = [f"Move {plan.source} to {plan.target}, which {TARGET_STATES[plan.state]}:"]
    lines += [f"  {table}: {plural(rows, 'row')}" for table, rows in plan.rows.items() if rows]
    if plan.live_jobs:
        lines.append(
            f"Jobs that wait or run: {plan.live_jobs:,}. They keep running if the server is back before their agents "
            "stop them, which is after agent.lease_s seconds."
        )
    if plan.server:
        lines.append(f"The server at {plan.server} runs. Stop it before the move with `anygpu down`.")
    return [*lines, "Nothing was changed (dry run)."]


def _as_json(result: "MoveResult") -> dict[str, Any]:
    return {
        "target": result.target,
        "already": result.already,
        "tables": [asdict(each) for each in result.tables],
        "blobs": None if result.blobs is None else asdict(result.blobs),
    }


def _result_lines(result: "MoveResult") -> list[str]:
    if result.already:
        return [f"The database was already moved to {result.target}."]
    rows = sum(each.rows for each in result.tables)
    written = sum(each.written for each in result.tables)
    lines = [
        f"Moved {rows:,} rows of {len(result.tables)} tables to {result.target} ({written:,} written in this run). "
        "Counts and SHA-256 of all tables agree."
    ]
    replaced = sum(each.replaced for each in result.tables)
    if replaced:
        lines.append(
            f"{replaced:,} damaged texts contain bytes that PostgreSQL cannot store; they were replaced."
        )
    if result.blobs is not None:
        lines.append(
            f"Copied {result.blobs.copied:,} of {result.blobs.blobs:,} files; the others were there."
        )
    return lines


def _settings_lines(path: Path, values: dict[str, Any], is_written: bool) -> list[str]:
    if is_written:
        return [f"Wrote the new addresses to {path}. Start the server with `anygpu up`."]
    shown = [f"    {name} = {json.dumps(value)}" for name, value in values.items()]
    return [f"Put this into {path}, then start the server with `anygpu up`:", "", "    [store]", *shown]


def _warn_about_overrides(loaded: "Settings", values: dict[str, Any]) -> None:
    """Warn about environment variables that would hide the new settings."""
    from anygpu.settings import environment_name

    for name in values:
        variable = environment_name(f"store.{name}")
        if loaded.origins.get(f"store.{name}") == variable and os.environ.get(variable) != values[name]:
            print_message(
                f"Warning: the variable {variable} overrides the settings file. Change or remove it."
            )


_SECTION = re.compile(r"^\[store\][ \t]*(?:#.*)?$", re.MULTILINE)
_NEXT_SECTION = re.compile(r"^\[", re.MULTILINE)


def write_store_settings(path: Path, values: dict[str, Any]) -> None:
    """Set values in the section `[store]` of the settings file. Everything else in the file stays as it is."""
    from anygpu.files import write_atomic

    text = path.read_text(encoding="utf-8") if path.exists() else ""
    before = tomllib.loads(text)
    changed = _with_values(text, values)
    expected = {**before, "store": {**before.get("store", {}), **values}}
    if not _has_content(changed, expected):
        raise AnygpuError(
            f"The settings file {path} could not be changed automatically, and was left as it is.",
            hint="The database was moved. Set the values in the section [store] yourself: "
            + ", ".join(f"{name} = {json.dumps(value)}" for name, value in values.items()),
        )
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_atomic(path, changed.encode())


def _has_content(text: str, expected: dict[str, Any]) -> bool:
    """Return whether the text is TOML with this content. Edited text may not be TOML, such as after a long list."""
    try:
        return tomllib.loads(text) == expected
    except tomllib.TOMLDecodeError:
        return False


def _with_values(text: str, values: dict[str, Any]) -> str:
    lines = "".join(f"{name} = {json.dumps(value)}\n" for name, value in values.items())
    found = _SECTION.search(text)
    if found is None:
        separator = "" if not text or text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{separator}[store]\n{lines}"
    following = _NEXT_SECTION.search(text, found.end())
    end = following.start() if following else len(text)
    body = text[found.end() : end].lstrip("\n")
    for name in values:
        body = re.sub(rf"^{name}[ \t]*=[^\n]*\n?", "", body, flags=re.MULTILINE)
    return f"{text[: found.end()]}\n{lines}{body}{text[end:]}"
