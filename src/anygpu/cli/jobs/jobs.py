"""`anygpu ls`, `show`, `cancel`, `resume`, `migrate` and `queue`."""

from typing import Any

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.exits import print_message
from anygpu.cli.jobs.run import follow_job, print_submission
from anygpu.cli.terminal import formatting, job_lines, output
from anygpu.cli.terminal.output import emit, emit_json

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
def ls_command(
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
        emit(job_lines.job_table(found, colour=output.use_colour()))
        emit(
            [f"… and more: `anygpu ls --all` or --limit ({formatting.plural(len(found), 'job')} shown)"]
            if cursor
            else []
        )
    else:
        emit(["no jobs yet; `anygpu run train.py` makes one" if not wanted else "no such jobs"])


@click.command(name="show")
@click.argument("job", default="last")
@click.option("--spec", is_flag=True, help="The spec it was submitted with, as a job file.")
@json_option
@context_option
def show_command(job: str, spec: bool, as_json: bool, context_name: str) -> None:
    """Tell everything about a JOB: an id or its beginning, a name, or `last`."""
    found = connect(context_name).job(job)
    if as_json:
        emit_json(found["spec"] if spec else found)
    elif spec:
        import yaml

        click.echo(yaml.safe_dump(found["spec"], sort_keys=False, allow_unicode=True), nl=False)
    else:
        emit(job_lines.job_details(found, colour=output.use_colour()))


@click.command(name="cancel")
@click.argument("jobs", nargs=-1, required=True)
@click.option("--wait", "-w", is_flag=True, help="Until nothing of it is left.")
@json_option
@context_option
def cancel_command(jobs: tuple[str, ...], wait: bool, as_json: bool, context_name: str) -> None:
    """End JOBS: each gets SIGTERM, ten seconds to save, then SIGKILL."""
    client = connect(context_name)
    answers = [client.cancel(job) for job in jobs]
    for answer in answers if wait else []:
        for _ in client.another().stream(answer["id"], include=("events",)):
            pass
    if wait:
        answers = [client.job(answer["id"]) for answer in answers]
    if as_json:
        emit_json({"jobs": answers})
    else:
        emit(f"{_cancel_status(answer)} {answer['id']}" for answer in answers)


def _cancel_status(answer: dict[str, str]) -> str:
    status = answer["status"]
    if status in ("completed", "failed"):
        return f"already {status}"
    return status if status == "cancelled" else "cancelling"


@click.command(name="resume")
@click.argument("job")
@click.option("--set", "sets", multiple=True, help="Change a field of the spec: --set limits.timeout=6h.")
@click.option("--detach", "-d", is_flag=True, help="Submit, print the id, and leave.")
@json_option
@context_option
@click.pass_context
def resume_command(
    context: click.Context, /, job: str, sets: tuple[str, ...], detach: bool, as_json: bool, context_name: str
) -> None:
    """Go on from the newest checkpoint of an ended JOB, as a new job, and follow it."""
    from anygpu.spec.flags import from_flags

    client = connect(context_name)
    old = client.job(job)
    submitted = client.resume(old["id"], from_flags({}, sets))
    if not old.get("checkpoint"):
        print_message("the job left no checkpoint; it starts from the beginning")
    context.exit(print_submission(submitted, as_json) if detach else follow_job(client, submitted, as_json))


@click.command(name="migrate")
@click.argument("job", default="last")
@click.option("--to", required=True, help="The backend to go on at (`anygpu backend ls`).")
@json_option
@context_option
def migrate_command(job: str, to: str, as_json: bool, context_name: str) -> None:
    """JOB saves a checkpoint, stops, and goes on from it at another backend. It counts as no retry."""
    answer = connect(context_name).migrate(job, to)
    emit_json(answer) if as_json else emit([f"moving {answer['name'] or answer['id']} to {to}"])


@click.command(name="queue")
@json_option
@context_option
def queue_command(as_json: bool, context_name: str) -> None:
    """What waits, for what, and what runs meanwhile."""
    found = connect(context_name).queue()
    if as_json:
        emit_json(found)
        return
    waiting, running, slots = found["jobs"], found.get("running") or [], found.get("slots") or []
    emit(_waiting_table(waiting) if waiting else ["nothing waits"])
    if running:
        emit(["", *_running_table(running)])
    if slots:
        emit(["", *_slots_table(slots)])


def _waiting_table(jobs: list[dict[str, Any]]) -> list[str]:
    heading = ("POSITION", "ID", "NAME", "PRIORITY", "BAND", "GPU-HOURS", "WAITING", "FOR")
    rows = [
        (
            str(job["position"]),
            formatting.short_id(job["id"]),
            job.get("name") or "-",
            str(job.get("priority", 0)),
            job.get("band") or "-",
            _format_hours(job.get("gpu_hours")),
            formatting.duration(job.get("waiting_s")),
            job.get("reason") or "-",
        )
        for job in jobs
    ]
    return output.table(heading, rows)


def _format_hours(hours: float | None) -> str:
    """What the job has had so far."""
    return "-" if not hours else f"{hours:.1f}" if hours >= 0.1 else "<0.1"


def _running_table(jobs: list[dict[str, Any]]) -> list[str]:
    rows = [
        (formatting.short_id(job["id"]), job.get("name") or "-", job.get("backend") or "-") for job in jobs
    ]
    return output.table(("RUNNING", "NAME", "BACKEND"), rows)


def _slots_table(slots: list[dict[str, Any]]) -> list[str]:
    names = list(dict.fromkeys(key for slot in slots for key in slot))
    rows = [tuple(str(slot.get(name, "-")) for name in names) for slot in slots]
    return output.table(tuple(name.upper().replace("_", " ") for name in names), rows)
