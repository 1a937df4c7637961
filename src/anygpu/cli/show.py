"""`anygpu show`: everything about a job."""

import click

from anygpu.cli import jobs, paint
from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.output import emit, emit_json


@click.command(name="show")
@click.argument("job", default="last")
@click.option("--spec", is_flag=True, help="The spec it was submitted with, as a job file.")
@json_option
@context_option
def command(job: str, spec: bool, as_json: bool, context_name: str) -> None:
    """Tell everything about a JOB: an id or its beginning, a name, or `last`."""
    found = connect(context_name).job(job)
    if as_json:
        emit_json(found["spec"] if spec else found)
    elif spec:
        import yaml

        click.echo(yaml.safe_dump(found["spec"], sort_keys=False, allow_unicode=True), nl=False)
    else:
        emit(jobs.describe(found, colour=paint.wanted()))
