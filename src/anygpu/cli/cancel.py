"""`anygpu cancel`: end jobs."""

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.output import emit, emit_json


@click.command(name="cancel")
@click.argument("jobs", nargs=-1, required=True)
@click.option("--wait", "-w", is_flag=True, help="Until nothing of it is left.")
@json_option
@context_option
def command(jobs: tuple[str, ...], wait: bool, as_json: bool, context_name: str) -> None:
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
        emit(f"{_ending(answer)} {answer['id']}" for answer in answers)


def _ending(answer: dict[str, str]) -> str:
    status = answer["status"]
    if status in ("completed", "failed"):
        return f"already {status}"
    return status if status == "cancelled" else "cancelling"
