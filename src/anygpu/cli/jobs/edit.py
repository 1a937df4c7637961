"""`anygpu edit`."""

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.terminal.output import emit, emit_json


@click.command(name="edit")
@click.argument("job")
@click.option("--name", "-n", help='The new name. "" removes the name.')
@click.option("--tag", "-t", "add_tags", multiple=True, help="Add a tag. Repeat it for several.")
@click.option("--remove-tag", "remove_tags", multiple=True, help="Remove a tag. Repeat it for several.")
@click.option("--notes", help='The new notes. "" removes them.')
@json_option
@context_option
def edit_command(
    job: str,
    name: str | None,
    add_tags: tuple[str, ...],
    remove_tags: tuple[str, ...],
    notes: str | None,
    as_json: bool,
    context_name: str,
) -> None:
    """Change the name, tags or notes of a JOB, also after its end."""
    changes = {"name": name, "notes": notes, "add_tags": list(add_tags), "remove_tags": list(remove_tags)}
    given = {key: value for key, value in changes.items() if value is not None and value != []}
    if not given:
        raise click.UsageError("Nothing to change. Use --name, --tag, --remove-tag or --notes.")
    edited = connect(context_name).edit(job, **given)
    if as_json:
        emit_json(edited)
        return
    tags = ", ".join(edited["tags"]) or "none"
    emit([f"Job {edited['id']}: name {edited['name'] or 'none'}, tags {tags}."])
