"""`anygpu login`: use a server elsewhere."""

from urllib.parse import urlsplit

import click

from anygpu.cli.connection import json_option
from anygpu.cli.output import emit, emit_json
from anygpu.cli.secret import asked
from anygpu.sdk.client import Client
from anygpu.sdk.context import Context, contexts, endpoint_of, save


@click.command(name="login")
@click.argument("url")
@click.option("--name", "-n", default="", help="What to call it. Default: its host name.")
@json_option
def command(url: str, name: str, as_json: bool) -> None:
    """Log in to the server at URL with a token, typed unseen or piped in, and use it from now on."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise click.UsageError(f"{url!r} is not an address; write it as https://host[:port].")
    _warn_of_plain_http(parts.scheme, parts.hostname)
    token = asked(f"token for {parts.hostname}").strip()
    context = Context(name or parts.hostname, url.rstrip("/"), token)
    who = Client(lambda: endpoint_of(context)).whoami()
    save(contexts().added(context))
    if as_json:
        emit_json({"context": context.name, "url": context.url, "whoami": who})
    else:
        emit(
            [f"logged in to {context.url} as {who.get('person') or '-'}; context {context.name!r} is in use"]
        )


def _warn_of_plain_http(scheme: str, host: str) -> None:
    if scheme == "http" and host not in ("localhost", "::1") and not host.startswith("127."):
        click.echo(
            f"anygpu: {host} is reached without encryption; anyone on the way can read the token", err=True
        )
