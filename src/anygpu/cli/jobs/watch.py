"""`anygpu watch`: a job's charts, progress and telemetry, updated live."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.terminal import formatting, job_lines, output
from anygpu.cli.terminal.chart import Curves
from anygpu.cli.terminal.output import emit, emit_json, emit_json_line
from anygpu.cli.terminal.progress_bar import StreamStatus, bar
from anygpu.control.ids import short_id
from anygpu.printable import printable_line
from anygpu.sdk.client import Client
from anygpu.sdk.status import fraction_of


@dataclass(slots=True)
class Dashboard:
    """The live view of a job: title, progress, charts, metrics and machine.

    Each message of the stream updates it.
    """

    job: Mapping[str, Any]
    status: StreamStatus
    curves: Curves
    height: int = 8

    def seed(self) -> None:
        """Load everything that the server already knows about the job: for the first view, and for the last one."""
        self.status.attempt = self.job.get("attempt") or 0
        self.status.metrics.update(self.job.get("metrics") or {})
        self.update(
            {"kind": "progress", "progress": self.job.get("progress"), "telemetry": self.job.get("telemetry")}
        )

    def update(self, message: Mapping[str, Any]) -> None:
        self.status.update(message, time.monotonic())
        if message["kind"] == "metrics":
            self.curves.add_points(message["points"])

    def lines(self, width: int, *, colour: bool | None = None) -> list[str]:
        return [
            self._title_line(width, painted=output.use_colour() if colour is None else colour),
            self._progress_line(width),
            *self._notes(width),
            "",
            *self.curves.lines(width, self.height),
            "",
            *[
                formatting.truncate(line, width)
                for line in (self._metrics_line(), *machine_lines(self.status.telemetry))
                if line
            ],
        ]

    def as_dict(self) -> dict[str, Any]:
        """Return the job and the points of the shown metrics, for `--json`."""
        return {"job": self.job, "curves": self.curves.as_dict()}

    def one_line(self, width: int) -> str:
        text = (
            f"{job_lines.status_text(self.job):<10} {self.status.line(max(20, width - 11), time.monotonic())}"
        )
        return formatting.truncate(text, width)

    def _title_line(self, width: int, *, painted: bool) -> str:
        hue = output.STATUS_COLOURS.get(self.job["status"], "dim")
        state = output.paint(job_lines.status_text(self.job), hue, on=painted)
        name = output.paint(self.job.get("name") or short_id(self.job["id"]), "bold", on=painted)
        tries = f" · attempt {self.status.attempt}" if self.status.attempt > 1 else ""
        place = f" · on {self.job['backend']}" if self.job.get("backend") else ""
        reason = f" · {self.job['reason']}" if self.job.get("reason") else ""
        text = f"{name} · {state}{place}{tries}{reason}"
        fits = output.visible_length(text) <= width
        return text if fits else formatting.truncate(output.plain_text(text), width)

    def _progress_line(self, width: int) -> str:
        now = self.status.progress
        left = self.status.time_left.seconds(time.monotonic())
        parts = [job_lines.progress_text(now), f"ETA {formatting.duration(left)}" if left is not None else ""]
        text = " · ".join(part for part in parts if part)
        bar_width = max(10, min(60, width - len(text) - 4))
        return formatting.truncate(f"▕{bar(fraction_of(now) or 0, bar_width)}▏ {text}", width)

    def _notes(self, width: int) -> list[str]:
        texts = {
            "place": self._place_text(),
            "resume": (self.job.get("resume") or {}).get("message") or "",
            "expected": job_lines.prediction_text(self.job),
            "better": job_lines.better_offer_text(self.job),
        }
        return [formatting.truncate(f"{name}: {text}", width) for name, text in texts.items() if text]

    def _place_text(self) -> str:
        place, cost = job_lines.place_text(self.job), job_lines.spent_text(self.job)
        return "" if not self.job.get("place") else place if cost == "free" else f"{place}; {cost}"

    def _metrics_line(self) -> str:
        return formatting.metrics(self.status.metrics, 12)


def machine_lines(telemetry: Mapping[str, Any]) -> list[str]:
    """Return one line for CPU, memory and disk, and one line for each GPU of the machine."""
    parts = []
    if telemetry.get("cpu") is not None:
        parts.append(f"cpu {formatting.percent(telemetry['cpu'])}")
    for name in ("memory", "disk"):
        part = telemetry.get(name) or {}
        if part.get("used") is not None:
            total = f" of {formatting.size(part['total'])}" if part.get("total") else ""
            parts.append(f"{name} {formatting.size(part['used'])}{total}")
    gpus = [_gpu_line(number, gpu) for number, gpu in enumerate(telemetry.get("gpus") or [])]
    return [*([" · ".join(parts)] if parts else []), *gpus]


def _gpu_line(number: int, gpu: Mapping[str, Any]) -> str:
    values = " · ".join(
        f"{key} {formatting.metric(value)}" for key, value in gpu.items() if isinstance(value, int | float)
    )
    return f"gpu {number} {gpu.get('name') or ''}: {values}"


PLAIN_EVERY_S = 1.0


@click.command(name="watch")
@click.argument("job", default="last")
@click.option("--metric", "-m", "metrics", multiple=True, help="Draw this metric. Repeatable.")
@click.option(
    "--height",
    default=8,
    show_default=True,
    type=click.IntRange(2, 60),
    help="Height of each chart in lines.",
)
@click.option("--once", is_flag=True, help="Draw once and exit.")
@json_option
@context_option
def watch_command(
    job: str, metrics: tuple[str, ...], height: int, once: bool, as_json: bool, context_name: str
) -> None:
    """Watch a JOB until it ends: charts, progress, time left, metrics and the machine."""
    client = connect(context_name)
    board = Dashboard(client.job(job), StreamStatus(), Curves(metrics), height)
    cursor = board.curves.load(client, board.job)
    board.seed()
    if once:
        emit_json(board.as_dict()) if as_json else emit(board.lines(output.terminal_width()))
        return
    stream = client.stream(board.job["id"], include=("events", "metrics", "progress"), cursor=cursor)
    if as_json:
        for message in stream:
            emit_json_line(message)
        return
    changes = _updates(client.another(), board, iter(stream))
    _draw_live(board, changes) if sys.stdout.isatty() else _print_plain(board, changes)


def _updates(asking: Client, board: Dashboard, stream: Iterator[dict[str, Any]]) -> Iterator[bool]:
    """Update the dashboard with each message of the stream; yield True if the message was an event."""
    for message in stream:
        if message["kind"] in ("event", "end"):
            board.job = asking.job(board.job["id"])
        board.update(message)
        if message["kind"] == "end":
            board.seed()
        yield message["kind"] in ("event", "end")


def _print_plain(board: Dashboard, changes: Iterator[bool]) -> None:
    printed_at = 0.0
    for important in changes:
        if important or time.monotonic() - printed_at > PLAIN_EVERY_S:
            print(printable_line(board.one_line(output.terminal_width())), flush=True)
            printed_at = time.monotonic()


def _draw_live(board: Dashboard, changes: Iterator[bool]) -> None:
    with LiveArea() as draw:
        for _ in changes:
            draw(board.lines(output.terminal_width()))
        draw(board.lines(output.terminal_width()))


def _safe_text(lines: list[str]) -> str:
    return "\n".join(printable_line(line, colours=True) for line in lines)


class LiveArea:
    """An area of the terminal that is redrawn in place. The last drawing remains visible."""

    def __enter__(self) -> Callable[[list[str]], None]:
        from rich.console import Console
        from rich.live import Live
        from rich.text import Text

        self._live = Live(
            console=Console(), auto_refresh=True, refresh_per_second=10, vertical_overflow="crop"
        )
        self._live.start()
        return lambda lines: self._live.update(Text.from_ansi(_safe_text(lines), no_wrap=True))

    def __exit__(self, *_: object) -> None:
        self._live.stop()
