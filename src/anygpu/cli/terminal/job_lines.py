"""The text that `anygpu ls`, `show` and `watch` print about jobs."""

from collections.abc import Mapping, Sequence
from typing import Any

from anygpu.cli.terminal import formatting, output
from anygpu.sdk.status import fraction_of

Job = Mapping[str, Any]
PREDICTION_SOURCES = {
    "first steps": "from its first steps",
    "history": "from past runs",
    "code": "from its code",
    "said": "as the job says",
    "nothing": "a guess",
}
HEADING = ("ID", "NAME", "STATUS", "PROGRESS", "TOOK", "SUBMITTED", "BACKEND", "METRICS")


def job_table(jobs: Sequence[Job], *, colour: bool, columns: int | None = None) -> list[str]:
    """A table of jobs; the column of metrics only where the server sends them along."""
    cells = [_job_row(job, colour) for job in jobs]
    shown = len(HEADING) if any(job.get("metrics") for job in jobs) else len(HEADING) - 1
    return output.table(HEADING[:shown], [row[:shown] for row in cells], columns=columns)


def _job_row(job: Job, colour: bool) -> tuple[str, ...]:
    return (
        formatting.short_id(job["id"]),
        job.get("name") or "-",
        output.paint(status_text(job), status_colour(job), on=colour),
        formatting.percent(fraction_of(job.get("progress") or {})),
        formatting.duration(formatting.seconds_since(job["submitted_at"], job.get("ended_at"))),
        formatting.age(job["submitted_at"]),
        job.get("backend") or "-",
        formatting.metrics(job.get("metrics") or {}, 4) or "-",
    )


def status_colour(job: Job) -> str:
    return output.STATUS_COLOURS.get(job["status"], "dim")


def status_text(job: Job) -> str:
    """`running (recovering)` says more than either word."""
    plain = {"running": "training", "queued": "planning"}.get(job["status"])
    if job["status"] in ("completed", "failed", "cancelled") or job["phase"] == plain:
        return str(job["status"])
    return f"{job['status']} ({job['phase']})"


def job_details(job: Job, *, colour: bool) -> list[str]:
    """Everything worth knowing about one job, most important first."""
    pairs = [
        ("job", f"{job.get('name') or '-'}  {job['id']}"),
        ("status", output.paint(status_text(job), status_colour(job), on=colour)),
        *_optional_fields(job),
        (
            "submitted",
            f"{job['submitted_at']} ({formatting.age(job['submitted_at'])}) by {job.get('person') or '-'}",
        ),
        ("took", formatting.duration(formatting.seconds_since(job["submitted_at"], job.get("ended_at")))),
        ("backend", job.get("backend") or "-"),
        ("cost", _cost_text(job)),
    ]
    return [*output.fields(pairs), *_attempt_table(job)]


def _cost_text(job: Job) -> str:
    """The ledger; and where the provider's own meter says otherwise, that too."""
    differs = [each for each in job.get("attempts") or () if each.get("metered_microusd") is not None]
    text = formatting.money(job.get("cost_microusd"))
    for each in differs:
        theirs, ours = formatting.money(each["metered_microusd"]), formatting.money(each["cost_microusd"])
        text += f"; attempt {each['number']}: the provider's meter says {theirs}, the ledger {ours}"
    return text


def _optional_fields(job: Job) -> list[tuple[str, str]]:
    failure = job.get("failure")
    saved = job.get("checkpoint")
    told = [
        ("waits for", job.get("reason") or ""),
        ("queue", f"position {job['queue_position']}" if job.get("queue_position") else ""),
        ("failure", f"{failure['message']} [{failure['code']}]" if failure else ""),
        ("last words", _last_message(job, failure["message"]) if failure else ""),
        ("progress", progress_text(job.get("progress") or {})),
        ("expected", prediction_text(job)),
        ("better", better_offer_text(job)),
        ("metrics", formatting.metrics(job.get("metrics") or {}, 20)),
        ("checkpoint", f"step {saved['step']}, {formatting.age(saved['saved_at'])}" if saved else ""),
        ("work lost", formatting.duration(job["work_lost_s"]) if job.get("work_lost_s") else ""),
        ("files", f"{job['artifacts']} to fetch" if job.get("artifacts") else ""),
        ("resumed from", job.get("resumed_from") or ""),
        ("tags", ", ".join(job.get("tags") or ())),
    ]
    return [(name, text) for name, text in told if text]


def _last_message(job: Job, failure: str) -> str:
    """What the last attempt said before it failed: mostly the reason, and told once."""
    tried = job.get("attempts") or [{}]
    said = (tried[-1].get("message") or "").split()
    return "" if said == failure.split() else " ".join(said)


def prediction_text(job: Job) -> str:
    """What the newest prediction says of the whole job; nothing once it has ended."""
    said = job.get("prediction")
    if not said or job.get("ended_at"):
        return ""
    low, high = formatting.duration(said["wall_low_s"]), formatting.duration(said["wall_high_s"])
    cost = f", {formatting.money(said['cost_microusd'])}" if said["cost_high_microusd"] else ""
    source = PREDICTION_SOURCES.get(said["basis"], said["basis"])
    return f"{formatting.duration(said['wall_s'])} in all ({low} to {high}){cost}; {source}"


def better_offer_text(job: Job) -> str:
    """Where what is left of it would be done for less or sooner, and how it gets there."""
    found = job.get("better")
    if not found:
        return ""
    place, saves, sooner_s = found["place"], found["saves_microusd"], found["sooner_s"]
    money = f"cost {formatting.money(abs(saves))} {'less' if saves >= 0 else 'more'}"
    when = f"be done {formatting.duration(abs(sooner_s))} {'sooner' if sooner_s >= 0 else 'later'}"
    where = "/".join(
        part for part in (place["backend"], place["name"], place["zone"] or place["region"]) if part
    )
    spot = " (spot)" if place["interruptible"] else ""
    how = f"anygpu migrate {job.get('name') or formatting.short_id(job['id'])} --to {place['backend']}"
    if found["by_itself"]:
        how = "it goes there after its next checkpoint"
    return f"would {money} and {when} on {where}{spot}: {how}"


def progress_text(now: Mapping[str, Any]) -> str:
    fraction = fraction_of(now)
    parts = [formatting.percent(fraction)] if fraction is not None else []
    for one, total in (("epoch", "epochs"), ("step", "steps")):
        if now.get(one) is not None:
            parts.append(f"{one} {now[one]}" + (f"/{now[total]}" if now.get(total) else ""))
    return ", ".join([*parts, *([now["message"]] if now.get("message") else [])])


def _attempt_table(job: Job) -> list[str]:
    tried = job.get("attempts") or []
    if not tried:
        return []
    heading = ("ATTEMPT", "BACKEND", "TYPE", "OUTCOME", "STARTED", "TOOK", "FROM STEP", "COST", "MESSAGE")
    return ["", *output.table(heading, [_attempt_row(each) for each in tried])]


def _attempt_row(each: Mapping[str, Any]) -> tuple[str, ...]:
    start = each.get("training_at") or each.get("launching_at")
    return (
        str(each["number"]),
        each.get("backend") or "-",
        f"{each.get('offer') or '-'}{' spot' if each.get('interruptible') else ''}",
        _outcome_text(each),
        formatting.age(start),
        formatting.duration(formatting.seconds_since(start, each.get("ended_at"))),
        "-" if each.get("resume_step") is None else str(each["resume_step"]),
        formatting.money(each.get("cost_microusd")),
        " ".join((each.get("message") or "").split()),
    )


def _outcome_text(each: Mapping[str, Any]) -> str:
    if each.get("signal"):
        return f"{each['outcome']} (signal {each['signal']})"
    if each.get("exit_code") is not None:
        return f"{each['outcome']} ({each['exit_code']})"
    return each.get("outcome") or each.get("phase") or "-"
