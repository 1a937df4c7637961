"""`anygpu down`: stop the server of this machine."""

import click

from anygpu.cli.connection import json_option
from anygpu.cli.output import emit, emit_json


@click.command(name="down")
@json_option
def command(as_json: bool) -> None:
    """Stop the server of this machine. Jobs go on, and are found again when it is back."""
    from anygpu.sdk import embedded

    state = embedded.state_dir()
    pid = embedded.stop(state)
    if as_json:
        emit_json({"stopped": pid is not None, "pid": pid, "state": str(state)})
    else:
        emit(["no server runs on this machine" if pid is None else f"server stopped (process {pid})"])
