"""`anygpu watch`: a job's curves, progress and machine, live."""

import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import click

from anygpu.cli import table
from anygpu.cli.bar import Pulse
from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.curves import Curves
from anygpu.cli.dashboard import Dashboard
from anygpu.cli.output import emit, emit_json, emit_json_line
from anygpu.sdk.client import Client

PLAIN_EVERY_S = 1.0


@click.command(name="watch")
@click.argument("job", default="last")
@click.option("--metric", "-m", "metrics", multiple=True, help="Chart this metric; may be repeated.")
@click.option(
    "--height", default=8, show_default=True, type=click.IntRange(2, 60), help="Lines of each chart."
)
@click.option("--once", is_flag=True, help="Draw it once and leave.")
@json_option
@context_option
def command(
    job: str, metrics: tuple[str, ...], height: int, once: bool, as_json: bool, context_name: str
) -> None:
    """Watch a JOB: charts, progress, time left, metrics and the machine, until it ends."""
    client = connect(context_name)
    board = Dashboard(client.job(job), Pulse(), Curves(metrics), height)
    cursor = board.curves.load(client, board.job)
    board.seed()
    if once:
        emit_json(board.told()) if as_json else emit(board.lines(table.width()))
        return
    stream = client.stream(board.job["id"], include=("events", "metrics", "progress"), cursor=cursor)
    if as_json:
        for message in stream:
            emit_json_line(message)
        return
    changes = _updates(client.another(), board, iter(stream))
    _live(board, changes) if sys.stdout.isatty() else _plain(board, changes)


def _updates(asking: Client, board: Dashboard, stream: Iterator[dict[str, Any]]) -> Iterator[bool]:
    """After each message: whether it was more than a small step."""
    for message in stream:
        if message["kind"] in ("event", "end"):
            board.job = asking.job(board.job["id"])
        board.take(message)
        yield message["kind"] in ("event", "end")


def _plain(board: Dashboard, changes: Iterator[bool]) -> None:
    printed_at = 0.0
    for important in changes:
        if important or time.monotonic() - printed_at > PLAIN_EVERY_S:
            print(board.one_line(table.width()), flush=True)
            printed_at = time.monotonic()


def _live(board: Dashboard, changes: Iterator[bool]) -> None:
    with live() as draw:
        for _ in changes:
            draw(board.lines(table.width()))
        draw(board.lines(table.width()))


class live:
    """A part of the terminal that is drawn again and again, and stays when it is done."""

    def __enter__(self) -> Callable[[list[str]], None]:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        self._live = Live(
            console=Console(), auto_refresh=True, refresh_per_second=10, vertical_overflow="crop"
        )
        self._live.start()
        return lambda lines: self._live.update(Text.from_ansi("\n".join(lines), no_wrap=True))

    def __exit__(self, *_: object) -> None:
        self._live.stop()
