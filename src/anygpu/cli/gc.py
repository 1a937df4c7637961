"""`anygpu gc`: apply retention."""

from typing import Any

import click

from anygpu.cli import table
from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.output import emit, emit_json


@click.command(name="gc")
@click.option("--dry-run", is_flag=True, help="Only tell what would be removed.")
@json_option
@context_option
def command(dry_run: bool, as_json: bool, context_name: str) -> None:
    """Remove what retention no longer keeps: old logs, metrics and files of ended jobs."""
    removed = connect(context_name).gc(dry_run=dry_run)
    if as_json:
        emit_json(removed)
    else:
        emit([*_summary(removed), *(["nothing was removed: this was a dry run"] if dry_run else [])])


def _summary(removed: dict[str, Any]) -> list[str]:
    pairs = [
        (key.replace("_", " "), str(len(value)) if isinstance(value, list) else str(value))
        for key, value in removed.items()
        if key != "dry_run"
    ]
    return table.fields(pairs)
