"""`anygpu ls`: jobs, newest first."""

from typing import Any

import click

from anygpu.cli import jobs, paint, words
from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.output import emit, emit_json

STATUSES = ("queued", "running", "completed", "failed", "cancelled")


@click.command(name="ls")
@click.argument("text", default="")
@click.option("--status", "-s", type=click.Choice(STATUSES), help="Only these.")
@click.option("--tag", "-t", help="Only jobs with this tag.")
@click.option("--name", "-n", help="Only jobs of this name.")
@click.option("--backend", help="Only jobs that ran there.")
@click.option("--limit", "-l", default=20, show_default=True, type=click.IntRange(1), help="How many.")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@json_option
@context_option
def command(
    text: str, limit: int, everything: bool, as_json: bool, context_name: str, **filters: Any
) -> None:
    """List jobs, newest first; TEXT searches names, tags and commands."""
    client = connect(context_name)
    wanted = {key: value for key, value in filters.items() if value} | ({"q": text} if text else {})
    found: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page = client.jobs(**wanted, limit=200 if everything else min(limit - len(found), 200), cursor=cursor)
        found += page["jobs"]
        cursor = page.get("next_cursor")
        if not cursor or (not everything and len(found) >= limit):
            break
    if as_json:
        emit_json({"jobs": found, "next_cursor": cursor})
    elif found:
        emit(jobs.rows(found, colour=paint.wanted()))
        emit(
            [f"… and more: `anygpu ls --all` or --limit ({words.plural(len(found), 'job')} shown)"]
            if cursor
            else []
        )
    else:
        emit(["no jobs yet; `anygpu run train.py` makes one" if not wanted else "no such jobs"])
