"""`anygpu sweep`: end what nobody owns, now."""

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.output import emit, emit_json


@click.command(name="sweep")
@json_option
@context_option
def command(as_json: bool, context_name: str) -> None:
    """End machines that no job owns and what machines left behind, now. The server does so every minute by itself."""
    found = connect(context_name).sweep()
    if as_json:
        emit_json(found)
        return
    lines = [f"ending {each['name']} at {each['backend']}" for each in found["machines"]]
    lines += [f"removing {each['kind']} {each['id']} at {each['backend']}" for each in found["leftovers"]]
    emit(lines or ["nothing is left anywhere"])
    emit(f"{what}: {why}" for what, why in found["troubles"].items())
