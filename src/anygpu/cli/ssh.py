"""`anygpu ssh`: a shell on the machine of a job."""

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.shell import enter


@click.command(name="ssh", context_settings={"ignore_unknown_options": True})
@click.argument("job", default="last")
@click.argument("command_there", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND]...")
@json_option
@context_option
def command(job: str, command_there: tuple[str, ...], as_json: bool, context_name: str) -> None:
    """A shell on the machine JOB runs on, or one COMMAND there; --json only tells how to log in.

    A held machine bills until it is released.
    """
    enter(connect(context_name), job, command_there, as_json=as_json)
