"""`anygpu logs`: what a job printed, byte for byte."""

import sys
from collections.abc import Iterator

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.output import emit_json, emit_json_line
from anygpu.sdk.client import Client
from anygpu.sdk.stream import Cursor

READ = 1 << 18


@click.command(name="logs")
@click.argument("job", default="last")
@click.option("--follow", "-f", is_flag=True, help="Go on as it prints, until it ends.")
@click.option("--tail", "-n", type=click.IntRange(0), help="Begin this many lines before the end.")
@click.option("--attempt", type=click.IntRange(1), help="Of this attempt. Default: the newest.")
@json_option
@context_option
def command(
    job: str, follow: bool, tail: int | None, attempt: int | None, as_json: bool, context_name: str
) -> None:
    """Print what a JOB printed."""
    client = connect(context_name)
    start, of_attempt = (0, attempt) if tail is None else tail_start(client, job, attempt, tail)
    if follow:
        _follow(client, job, Cursor(attempt=of_attempt or 0, log=start), as_json)
    elif as_json:
        chunks = list(stored(client, job, of_attempt, start))
        text = b"".join(data for data, _ in chunks).decode(errors="replace")
        emit_json(
            {"job": job, "attempt": chunks[-1][1] if chunks else of_attempt, "start": start, "text": text}
        )
    else:
        for data, _ in stored(client, job, of_attempt, start):
            _write(data)


def stored(client: Client, job: str, attempt: int | None, offset: int) -> Iterator[tuple[bytes, int]]:
    """What is kept from an offset on, in pieces, each with its attempt."""
    while True:
        data, offset, attempt = client.logs(job, attempt=attempt, offset=offset, limit=READ)
        if not data:
            return
        yield data, attempt


def tail_start(client: Client, job: str, attempt: int | None, lines: int) -> tuple[int, int]:
    """The offset where the last `lines` lines begin. Reads from the end, twice as far each time."""
    back = 1 << 16
    while True:
        data, end, of_attempt = client.logs(job, attempt=attempt, offset=-back, limit=back)
        start = end - len(data)
        body = data.removesuffix(b"\n")
        if lines == 0:
            return end, of_attempt
        pieces = body.split(b"\n")
        if len(pieces) > lines:
            return end - (len(data) - len(body)) - len(b"\n".join(pieces[-lines:])), of_attempt
        if start <= 0 or len(data) < back:
            return max(start, 0), of_attempt
        back *= 2


def _follow(client: Client, job: str, cursor: Cursor, as_json: bool) -> None:
    for message in client.stream(job, include=("logs",), cursor=cursor):
        if message["kind"] != "log":
            continue
        if as_json:
            emit_json_line({**message, "data": message["data"].decode(errors="replace")})
        else:
            _write(message["data"])


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
