"""`anygpu ls`, `show`, `start`, `cancel`, `rm`, `resume`, `migrate` and `queue`."""

import sys
from typing import Any

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.exits import print_message
from anygpu.cli.jobs.run import follow_job, print_submission
from anygpu.cli.terminal import formatting, job_lines, output
from anygpu.cli.terminal.output import emit, emit_json
from anygpu.control.ids import short_id

STATUSES = ("queued", "running", "completed", "failed", "cancelled", "active")


@click.command(name="ls")
@click.argument("text", default="")
@click.option(
    "--status",
    "-s",
    type=click.Choice(STATUSES),
    help="Only jobs with this status; active means queued or running.",
)
@click.option("--tag", "-t", help="Only jobs with this tag.")
@click.option("--name", "-n", help="Only jobs with this name.")
@click.option("--backend", help="Only jobs that ran on this backend.")
@click.option(
    "--limit", "-l", default=20, show_default=True, type=click.IntRange(1), help="Maximum number of jobs."
)
@click.option("--all", "everything", is_flag=True, help="List all jobs.")
@json_option
@context_option
def ls_command(
    text: str, limit: int, everything: bool, as_json: bool, context_name: str, **filters: Any
) -> None:
    """List jobs, newest first. With TEXT, search for it in names, tags and commands."""
    client = connect(context_name)
    criteria = {key: value for key, value in filters.items() if value} | ({"q": text} if text else {})
    jobs: list[dict[str, Any]] = []
    cursor: str | None = None
    while True:
        page_size = 200 if everything else min(limit - len(jobs), 200)
        page = client.jobs(**criteria, limit=page_size, cursor=cursor)
        jobs += page["jobs"]
        cursor = page.get("next_cursor")
        if not cursor or (not everything and len(jobs) >= limit):
            break
    if as_json:
        emit_json({"jobs": jobs, "next_cursor": cursor})
    elif jobs:
        emit(job_lines.job_table(jobs, colour=output.use_colour()))
        emit(
            [f"Showing {formatting.plural(len(jobs), 'job')}; use --all or --limit to see more."]
            if cursor
            else []
        )
    else:
        emit(["No jobs match." if criteria else "No jobs yet. Start one with `anygpu run train.py`."])


@click.command(name="show")
@click.argument("job", default="last")
@click.option("--spec", is_flag=True, help="Print the job spec, as a job file.")
@json_option
@context_option
def show_command(job: str, spec: bool, as_json: bool, context_name: str) -> None:
    """Show the details of a JOB: its id (or the start of it), its name, or `last`."""
    details = connect(context_name).job(job)
    if as_json:
        emit_json(details["spec"] if spec else details)
    elif spec:
        click.echo(output.dump_yaml(details["spec"]), nl=False)
    else:
        emit(job_lines.job_details(details, colour=output.use_colour()))


@click.command(name="cancel")
@click.argument("jobs", nargs=-1, required=True)
@click.option("--wait", "-w", is_flag=True, help="Wait until the job has ended.")
@json_option
@context_option
def cancel_command(jobs: tuple[str, ...], wait: bool, as_json: bool, context_name: str) -> None:
    """Cancel JOBS. Each gets SIGTERM, ten seconds to save, then SIGKILL."""
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
        emit(f"{_cancel_status(answer)} {answer['id']}." for answer in answers)


def _cancel_status(answer: dict[str, str]) -> str:
    status = answer["status"]
    if status in ("completed", "failed"):
        return f"Already {status}:"
    return "Cancelled" if status == "cancelled" else "Cancelling"


@click.command(name="start")
@click.argument("jobs", nargs=-1, required=True)
@json_option
@context_option
def start_command(jobs: tuple[str, ...], as_json: bool, context_name: str) -> None:
    """Start waiting JOBS before the other waiting jobs of the project, as soon as machines are free."""
    client = connect(context_name)
    answers = [client.start(job) for job in jobs]
    if as_json:
        emit_json({"jobs": answers})
    else:
        emit(_start_status(answer) for answer in answers)


def _start_status(answer: dict[str, Any]) -> str:
    if not answer["start_requested"]:
        return f"The job is already running: {answer['id']}."
    reason = f": {answer['reason']}" if answer.get("reason") else ""
    return f"The job is now first in the queue: {answer['id']}{reason}."


@click.command(name="rm")
@click.argument("jobs", nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
@json_option
@context_option
def rm_command(jobs: tuple[str, ...], yes: bool, as_json: bool, context_name: str) -> None:
    """Delete JOBS that have ended, with their logs, metrics and files. What they cost stays recorded."""
    client = connect(context_name)
    found = list({job["id"]: job for job in map(client.job, jobs)}.values())
    if not yes and sys.stdin.isatty():
        emit(f"{job.get('name') or '-'}  {job['id']}  {job['status']}" for job in found)
        click.confirm(f"Delete {formatting.plural(len(found), 'job')}?", abort=True, err=True)
    for job in found:
        client.delete(job["id"])
    if as_json:
        emit_json({"deleted": [job["id"] for job in found]})
    else:
        emit(f"Deleted {job['id']}." for job in found)


@click.command(name="resume")
@click.argument("job")
@click.option(
    "--set",
    "sets",
    multiple=True,
    help="Change a field of the spec, such as limits.timeout=6h. Repeatable.",
)
@click.option(
    "--from-step",
    type=click.IntRange(0),
    metavar="N",
    help="Start from the checkpoint of step N instead of the newest.",
)
@click.option("--detach", "-d", is_flag=True, help="Submit, print the new job's id, and exit.")
@json_option
@context_option
@click.pass_context
def resume_command(
    context: click.Context,
    /,
    job: str,
    sets: tuple[str, ...],
    from_step: int | None,
    detach: bool,
    as_json: bool,
    context_name: str,
) -> None:
    """Start a new job from the newest intact checkpoint of an ended JOB, and follow it."""
    from anygpu.cli.jobs.consent import ConsentingSubmission
    from anygpu.spec.flags import from_flags

    client = connect(context_name)
    old = client.job(job)
    chosen = {} if from_step is None else {"resume_from": from_step}
    submit = ConsentingSubmission(lambda changes: client.resume(old["id"], changes), asks=not as_json)
    submitted = submit({**from_flags({}, sets), **chosen})
    if not old.get("checkpoint"):
        print_message("The ended job saved no checkpoint, so the new job starts from the beginning.")
    context.exit(
        print_submission(client, submitted, as_json) if detach else follow_job(client, submitted, as_json)
    )


@click.command(name="migrate")
@click.argument("job", default="last")
@click.option("--to", required=True, help="Backend to move to; see `anygpu backend ls`.")
@json_option
@context_option
def migrate_command(job: str, to: str, as_json: bool, context_name: str) -> None:
    """Move a running JOB to another backend: it saves a checkpoint, stops, and resumes there.

    This does not count as a retry.
    """
    answer = connect(context_name).migrate(job, to)
    emit_json(answer) if as_json else emit([f"Moving {answer['name'] or answer['id']} to {to}."])


@click.command(name="queue")
@json_option
@context_option
def queue_command(as_json: bool, context_name: str) -> None:
    """List waiting jobs, what they wait for, and the jobs that run now."""
    queue = connect(context_name).queue()
    if as_json:
        emit_json(queue)
        return
    waiting, running, slots = queue["jobs"], queue.get("running") or [], queue.get("slots") or []
    emit(_waiting_table(waiting) if waiting else ["No jobs are waiting."])
    if running:
        emit(["", *_running_table(running)])
    if slots:
        emit(["", *_slots_table(slots)])


def _waiting_table(jobs: list[dict[str, Any]]) -> list[str]:
    heading = ("POSITION", "ID", "NAME", "PRIORITY", "BAND", "GPU-HOURS", "WAITING", "STARTS IN", "FOR")
    rows = [
        (
            str(job["position"]),
            short_id(job["id"]),
            job.get("name") or "-",
            str(job.get("priority", 0)),
            job.get("band") or "-",
            _format_hours(job.get("gpu_hours")),
            formatting.duration(job.get("waiting_s")),
            formatting.duration(job.get("wait_s")),
            job.get("reason") or "-",
        )
        for job in jobs
    ]
    return output.table(heading, rows)


def _format_hours(hours: float | None) -> str:
    """Format the GPU hours that a job has used so far; `-` for none."""
    return "-" if not hours else f"{hours:.1f}" if hours >= 0.1 else "<0.1"


def _running_table(jobs: list[dict[str, Any]]) -> list[str]:
    rows = [(short_id(job["id"]), job.get("name") or "-", job.get("backend") or "-") for job in jobs]
    return output.table(("RUNNING", "NAME", "BACKEND"), rows)


def _slots_table(slots: list[dict[str, Any]]) -> list[str]:
    names = list(dict.fromkeys(key for slot in slots for key in slot))
    rows = [tuple(str(slot.get(name, "-")) for name in names) for slot in slots]
    return output.table(tuple(name.upper().replace("_", " ") for name in names), rows)
