"""`anygpu resume`: a new job that goes on from an old one's checkpoint."""

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.exits import say
from anygpu.cli.run import detached, followed


@click.command(name="resume")
@click.argument("job")
@click.option("--set", "sets", multiple=True, help="Change a field of the spec: --set limits.timeout=6h.")
@click.option("--detach", "-d", is_flag=True, help="Submit, print the id, and leave.")
@json_option
@context_option
@click.pass_context
def command(
    context: click.Context, /, job: str, sets: tuple[str, ...], detach: bool, as_json: bool, context_name: str
) -> None:
    """Go on from the newest checkpoint of an ended JOB, as a new job, and follow it."""
    from anygpu.spec.flags import from_flags

    client = connect(context_name)
    old = client.job(job)
    submitted = client.resume(old["id"], from_flags({}, sets))
    if not old.get("checkpoint"):
        say("the job left no checkpoint; it starts from the beginning")
    context.exit(detached(submitted, as_json) if detach else followed(client, submitted, as_json))
