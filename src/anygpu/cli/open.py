"""`anygpu open`: the server's page, by a link that works once."""

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.output import emit, emit_json
from anygpu.cli.up import browser_link


@click.command(name="open")
@click.option("--print", "only_print", is_flag=True, help="Print the link; open no browser.")
@json_option
@context_option
def command(only_print: bool, as_json: bool, context_name: str) -> None:
    """Open the server's page in a browser. The link works once and carries no token."""
    link = browser_link(connect(context_name, start=True))
    opened = False
    if not only_print and not as_json:
        import webbrowser

        opened = webbrowser.open(link)
    emit_json({"link": link}) if as_json else emit([link if not opened else f"opened {link}"])
