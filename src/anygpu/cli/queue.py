"""`anygpu queue`: what waits, for what, and what it waits behind."""

from typing import Any

import click

from anygpu.cli import table, words
from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.output import emit, emit_json


@click.command(name="queue")
@json_option
@context_option
def command(as_json: bool, context_name: str) -> None:
    """What waits, for what, and what runs meanwhile."""
    found = connect(context_name).queue()
    if as_json:
        emit_json(found)
        return
    waiting, running, slots = found["jobs"], found.get("running") or [], found.get("slots") or []
    emit(_waiting(waiting) if waiting else ["nothing waits"])
    if running:
        emit(["", *_running(running)])
    if slots:
        emit(["", *_slots(slots)])


def _waiting(jobs: list[dict[str, Any]]) -> list[str]:
    heading = ("POSITION", "ID", "NAME", "PRIORITY", "BAND", "GPU-HOURS", "WAITING", "FOR")
    rows = [
        (
            str(job["position"]),
            words.short_id(job["id"]),
            job.get("name") or "-",
            str(job.get("priority", 0)),
            job.get("band") or "-",
            _hours(job.get("gpu_hours")),
            words.duration(job.get("waiting_s")),
            job.get("reason") or "-",
        )
        for job in jobs
    ]
    return table.table(heading, rows)


def _hours(hours: float | None) -> str:
    """What the job has had so far."""
    return "-" if not hours else f"{hours:.1f}" if hours >= 0.1 else "<0.1"


def _running(jobs: list[dict[str, Any]]) -> list[str]:
    rows = [(words.short_id(job["id"]), job.get("name") or "-", job.get("backend") or "-") for job in jobs]
    return table.table(("RUNNING", "NAME", "BACKEND"), rows)


def _slots(slots: list[dict[str, Any]]) -> list[str]:
    names = list(dict.fromkeys(key for slot in slots for key in slot))
    rows = [tuple(str(slot.get(name, "-")) for name in names) for slot in slots]
    return table.table(tuple(name.upper().replace("_", " ") for name in names), rows)
