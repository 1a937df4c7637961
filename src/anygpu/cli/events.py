"""`anygpu events`: what happened, in order, and as it happens."""

import json
from collections.abc import Iterator
from typing import Any

import click

from anygpu.cli import words
from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.output import emit_json, emit_json_line
from anygpu.sdk.client import Client
from anygpu.sdk.stream import Cursor

Event = dict[str, Any]


@click.command(name="events")
@click.argument("job", default="last")
@click.option("--follow", "-f", is_flag=True, help="Go on as it happens, until the job ends.")
@click.option("--all", "everything", is_flag=True, help="Of every job, as it happens.")
@click.option("--after", default=0, help="Only those behind this position.")
@json_option
@context_option
def command(job: str, follow: bool, everything: bool, after: int, as_json: bool, context_name: str) -> None:
    """What happened to a JOB, each fact once and in order."""
    client = connect(context_name)
    if as_json and not (follow or everything):
        emit_json({"events": list(stored(client, job, after))})
        return
    if everything:
        found: Iterator[Event] = (
            each["event"] for each in client.project_stream(after=after) if "event" in each
        )
    else:
        found = _followed(client, job, after) if follow else stored(client, job, after)
    for event in found:
        emit_json_line(event) if as_json else click.echo(line(event, with_job=everything))


def stored(client: Client, job: str, after: int) -> Iterator[Event]:
    while True:
        page = client.events(job, after=after)
        yield from page["events"]
        after = page.get("next_after") or after
        if not page["events"] or not page.get("next_after"):
            return


def _followed(client: Client, job: str, after: int) -> Iterator[Event]:
    for message in client.stream(job, include=("events",), cursor=Cursor(after=after)):
        if message["kind"] == "event":
            yield message["event"]


def line(event: Event, *, with_job: bool = False) -> str:
    """`17  12:00:03.123  CheckpointSaved  attempt=1 step=400`."""
    clock = event["at"][11:23]
    job = f"{words.short_id(event['job_id'])}  " if with_job else ""
    return f"{event['position']:>5}  {clock}  {job}{event['type']:<18}  {_details(event['data'])}".rstrip()


def _details(data: dict[str, Any]) -> str:
    """What is simple, as `name=value`; the spec and other large parts are for --json."""
    simple = {key: value for key, value in data.items() if isinstance(value, str | int | float | bool)}
    nested = {
        key: value.get("step", value.get("name", value.get("code")))
        for key, value in data.items()
        if isinstance(value, dict) and key not in ("spec", "marks", "host")
    }
    shown = {**simple, **{key: value for key, value in nested.items() if value is not None}}
    hidden = ("ticket_sha256", "claimant", "plan")
    return " ".join(f"{key}={_value(value)}" for key, value in shown.items() if key not in hidden)


def _value(value: Any) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if " " in text or not text else text
