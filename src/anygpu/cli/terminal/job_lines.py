"""The text that `anygpu ls`, `show` and `watch` print about jobs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from anygpu.cli.terminal import formatting, output
from anygpu.control.ids import short_id
from anygpu.sdk.status import fraction_of

Job = Mapping[str, Any]
PREDICTION_SOURCES = {
    "first steps": "predicted from its first steps",
    "history": "predicted from past runs",
    "code": "predicted from its code",
    "said": "duration given with the job",
    "nothing": "a guess",
}
HEADING = ("ID", "NAME", "STATUS", "PROGRESS", "DURATION", "SUBMITTED", "BACKEND", "PRICE", "COST", "METRICS")
PAID_COLUMNS = ("PRICE", "COST")


def job_table(jobs: Sequence[Job], *, colour: bool, columns: int | None = None) -> list[str]:
    """Return the lines of a table of jobs.

    Price and cost are included only if a job uses or used a paid machine, metrics only if a job has metrics.
    """
    omitted = {
        *(() if any(_is_paid(job) for job in jobs) else PAID_COLUMNS),
        *(() if any(job.get("metrics") for job in jobs) else ("METRICS",)),
    }
    kept = [index for index, name in enumerate(HEADING) if name not in omitted]
    rows = [_job_row(job, colour) for job in jobs]
    return output.table(
        tuple(HEADING[index] for index in kept),
        [tuple(row[index] for index in kept) for row in rows],
        columns=columns,
    )


def _is_paid(job: Job) -> bool:
    return bool(job.get("cost_microusd") or (job.get("place") or {}).get("price_microusd_per_hour"))


def _job_row(job: Job, colour: bool) -> tuple[str, ...]:
    return (
        short_id(job["id"]),
        job.get("name") or "-",
        output.paint(status_text(job), status_colour(job), on=colour),
        formatting.percent(fraction_of(job.get("progress") or {})),
        formatting.duration(formatting.seconds_since(job["submitted_at"], job.get("ended_at"))),
        formatting.age(job["submitted_at"]),
        job.get("backend") or "-",
        _price_cell(job),
        spent_text(job).removesuffix(" so far"),
        formatting.metrics(job.get("metrics") or {}, 4) or "-",
    )


def _price_cell(job: Job) -> str:
    place = job.get("place")
    return formatting.hourly_price(place["price_microusd_per_hour"]) if place else "-"


def status_colour(job: Job) -> str:
    return (
        output.STATUS_COLOURS["failed"]
        if job.get("damaged")
        else output.STATUS_COLOURS.get(job["status"], "dim")
    )


def status_text(job: Job) -> str:
    """Return the status, with the phase if the phase adds information: `running (recovering)`."""
    if job.get("damaged"):
        return f"{job['status']} (damaged)"
    plain = {"running": "training", "queued": "planning"}.get(job["status"])
    if job["status"] in ("completed", "failed", "cancelled") or job["phase"] == plain:
        return str(job["status"])
    return f"{job['status']} ({job['phase']})"


def job_details(job: Job, *, colour: bool) -> list[str]:
    """Return the lines that `anygpu show` prints, most important first."""
    pairs = [
        ("job", f"{job.get('name') or '-'}  {job['id']}"),
        ("status", output.paint(status_text(job), status_colour(job), on=colour)),
        *_optional_fields(job),
        (
            "submitted",
            f"{job['submitted_at']} ({formatting.age(job['submitted_at'])}) by {job.get('person') or '-'}",
        ),
        ("duration", formatting.duration(formatting.seconds_since(job["submitted_at"], job.get("ended_at")))),
        ("place", place_text(job) or "-"),
        ("cost", cost_text(job)),
    ]
    return [*output.fields(pairs), *_attempt_table(job), *_node_table(job)]


def place_text(job: Job) -> str:
    """Return where the newest attempt runs or ran and its price per hour; an empty string before the first attempt."""
    place = job.get("place")
    if not place:
        return job.get("backend") or ""  # older servers send the backend only
    return f"{formatting.place(place)}, {formatting.hourly_price(place['price_microusd_per_hour'])}"


def cost_text(job: Job) -> str:
    """Return the job's cost as text. If the provider charged another amount for an attempt, both amounts are named."""
    differs = [each for each in job.get("attempts") or () if each.get("metered_microusd") is not None]
    text = spent_text(job)
    for each in differs:
        theirs, ours = formatting.money(each["metered_microusd"]), formatting.money(each["cost_microusd"])
        text += f"; attempt {each['number']}: the provider charges {theirs}, anygpu counted {ours}"
    return text


def spent_text(job: Job) -> str:
    """Return what the job has cost so far, or `free` if it uses no paid machine and has cost nothing."""
    cost, place = job.get("cost_microusd"), job.get("place")
    if not cost and not (place and place["price_microusd_per_hour"]):
        return "free" if place else "$0"
    return formatting.money(cost) if job.get("ended_at") else f"{formatting.money(cost)} so far"


def _optional_fields(job: Job) -> list[tuple[str, str]]:
    failure = job.get("failure")
    saved = job.get("checkpoint")
    pairs = [
        ("damaged", job.get("damaged") or ""),
        ("waiting for", job.get("reason") or ""),
        ("queue", _queue_text(job)),
        ("failure", f"{failure['message']} [{failure['code']}]" if failure else ""),
        ("last output", _last_message(job, failure["message"]) if failure else ""),
        ("progress", progress_text(job.get("progress") or {})),
        ("expected", prediction_text(job)),
        ("better", better_offer_text(job)),
        ("metrics", formatting.metrics(job.get("metrics") or {}, 20)),
        ("checkpoint", f"step {saved['step']}, {formatting.age(saved['saved_at'])}" if saved else ""),
        ("resume", (job.get("resume") or {}).get("message") or ""),
        ("work lost", _lost_work_text(job)),
        ("files", f"{job['artifacts']} to download (anygpu fetch)" if job.get("artifacts") else ""),
        ("resumed from", job.get("resumed_from") or ""),
        ("tags", ", ".join(job.get("tags") or ())),
        ("notes", job.get("notes") or ""),
    ]
    return [(name, text) for name, text in pairs if text]


def _lost_work_text(job: Job) -> str:
    """Return the training time that interruptions lost and its cost; an empty string if none was lost."""
    lost_s = job.get("work_lost_s")
    return formatting.work_lost(lost_s, job.get("work_lost_microusd") or 0) if lost_s else ""


def _queue_text(job: Job) -> str:
    """Return the position of a waiting job, and when it is predicted to start if that is known."""
    position, wait_s = job.get("queue_position"), job.get("queue_wait_s")
    if not position:
        return ""
    return f"position {position}" + (f", starts in about {formatting.duration(wait_s)}" if wait_s else "")


def _last_message(job: Job, failure: str) -> str:
    """Return the last attempt's message; an empty string if `failure` says the same."""
    attempts = job.get("attempts") or [{}]
    words = (attempts[-1].get("message") or "").split()
    return "" if words == failure.split() else " ".join(words)


def prediction_text(job: Job) -> str:
    """Return the predicted total time and cost of a running job; an empty string if the job has ended."""
    prediction = job.get("prediction")
    if not prediction or job.get("ended_at"):
        return ""
    low, high = formatting.duration(prediction["wall_low_s"]), formatting.duration(prediction["wall_high_s"])
    cost = f", {formatting.money(prediction['cost_microusd'])}" if prediction["cost_high_microusd"] else ""
    source = PREDICTION_SOURCES.get(prediction["basis"], prediction["basis"])
    return f"{formatting.duration(prediction['wall_s'])} in total ({low} to {high}){cost}; {source}"


def better_offer_text(job: Job) -> str:
    """Return what a better offer would save and how to migrate to it; an empty string if there is none."""
    better = job.get("better")
    if not better:
        return ""
    offer, saves, sooner_s = better["place"], better["saves_microusd"], better["sooner_s"]
    money = f"cost {formatting.money(abs(saves))} {'less' if saves >= 0 else 'more'}"
    when = f"finish {formatting.duration(abs(sooner_s))} {'sooner' if sooner_s >= 0 else 'later'}"
    where = "/".join(
        part for part in (offer["backend"], offer["name"], offer["zone"] or offer["region"]) if part
    )
    spot = " (spot)" if offer["interruptible"] else ""
    how = f"anygpu migrate {job.get('name') or short_id(job['id'])} --to {offer['backend']}"
    if better["by_itself"]:
        how = "it moves there after its next checkpoint"
    return f"would {money} and {when} on {where}{spot}: {how}"


def progress_text(now: Mapping[str, Any]) -> str:
    fraction = fraction_of(now)
    parts = [formatting.percent(fraction)] if fraction is not None else []
    for one, total in (("epoch", "epochs"), ("step", "steps")):
        if now.get(one) is not None:
            parts.append(f"{one} {now[one]}" + (f"/{now[total]}" if now.get(total) else ""))
    return ", ".join([*parts, *([now["message"]] if now.get("message") else [])])


def _attempt_table(job: Job) -> list[str]:
    attempts = job.get("attempts") or []
    if not attempts:
        return []
    heading = ("ATTEMPT", "BACKEND", "TYPE", "OUTCOME", "STARTED", "DURATION", "FROM STEP", "COST", "MESSAGE")
    return ["", *output.table(heading, [_attempt_row(each) for each in attempts])]


def _attempt_row(each: Mapping[str, Any]) -> tuple[str, ...]:
    start = each.get("training_at") or each.get("launching_at")
    return (
        str(each["number"]),
        each.get("backend") or "-",
        f"{each.get('offer') or '-'}{' spot' if each.get('interruptible') else ''}",
        _outcome_text(each),
        formatting.age(start),
        formatting.duration(formatting.seconds_since(start, each.get("ended_at"))),
        _from_step_text(each),
        formatting.money(each.get("cost_microusd")),
        " ".join((each.get("message") or "").split()),
    )


def _node_table(job: Job) -> list[str]:
    """Return the machines of the newest attempt, if it has several."""
    attempt = (job.get("attempts") or [{}])[-1]
    nodes = attempt.get("nodes") or []
    if not nodes:
        return []
    return ["", *output.table(("NODE", "RANKS", "HOST", "STATE", "MESSAGE"), [*_node_rows(attempt, nodes)])]


def _node_rows(attempt: Mapping[str, Any], nodes: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, ...]]:
    processes = attempt.get("processes_per_node") or 1
    for each in nodes:
        first, last = each["node"] * processes, (each["node"] + 1) * processes - 1
        yield (
            str(each["node"]),
            str(first) if first == last else f"{first} to {last}",
            each["host"] or "-",
            _outcome_text(each) if each["outcome"] else _node_state(attempt, each["state"]),
            " ".join((each["message"] or "").split()),
        )


def _node_state(attempt: Mapping[str, Any], state: str) -> str:
    """Return what a machine does that has not reported its end."""
    if attempt.get("ended_at"):
        return "reported no end"
    if state != "ready":
        return state
    return "running" if attempt.get("training_at") else "ready, waits for the others"


def _from_step_text(each: Mapping[str, Any]) -> str:
    if each.get("resume_step") is None:
        return "-"
    state = {"restored": " (unverified)", "restarted": " (restarted)"}.get(each.get("resume_state") or "", "")
    return f"{each['resume_step']}{state}"


def _outcome_text(each: Mapping[str, Any]) -> str:
    if each.get("signal"):
        return f"{each['outcome']} (signal {each['signal']})"
    if each.get("exit_code") is not None:
        return f"{each['outcome']} ({each['exit_code']})"
    return each.get("outcome") or each.get("phase") or "-"
