"""`anygpu version`: of the client, and of the server it talks to."""

import platform

import click

from anygpu import __version__
from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.output import emit, emit_json
from anygpu.errors import AnygpuError


@click.command(name="version")
@json_option
@context_option
def command(as_json: bool, context_name: str) -> None:
    """Versions of the client and of the server."""
    server, said = None, "no server runs"
    try:
        server = connect(context_name).whoami().get("server_version")
        said = f"server {server}"
    except AnygpuError as error:
        said = str(error)
    if as_json:
        emit_json({"client": __version__, "python": platform.python_version(), "server": server})
    else:
        emit([f"anygpu {__version__} (Python {platform.python_version()})", said])
