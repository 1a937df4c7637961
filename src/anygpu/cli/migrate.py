"""`anygpu migrate`: a job saves, stops, and goes on somewhere else."""

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.output import emit, emit_json


@click.command(name="migrate")
@click.argument("job", default="last")
@click.option("--to", required=True, help="The backend to go on at (`anygpu backend ls`).")
@json_option
@context_option
def command(job: str, to: str, as_json: bool, context_name: str) -> None:
    """JOB saves a checkpoint, stops, and goes on from it at another backend. It counts as no retry."""
    answer = connect(context_name).migrate(job, to)
    emit_json(answer) if as_json else emit([f"moving {answer['name'] or answer['id']} to {to}"])
