"""`anygpu up`: the server in the foreground, until Ctrl-C."""

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import click

from anygpu.cli.connection import json_option
from anygpu.cli.output import emit_json_line
from anygpu.errors import Conflict

if TYPE_CHECKING:
    from anygpu.sdk.client import Client
    from anygpu.sdk.embedded import Running


@click.command(name="up")
@click.option("--detach", "-d", is_flag=True, help="Start it in the background and leave.")
@json_option
@click.pass_context
def command(context: click.Context, /, detach: bool, as_json: bool) -> None:
    """Run the server here, print its address and a link for the browser."""
    from anygpu.sdk import embedded

    state = embedded.state_dir()
    if detach:
        announce(embedded.ensure(state), as_json, how_to_stop="`anygpu down`")
        return
    if (found := embedded.running(state)) is not None:
        raise Conflict(
            f"A server runs already at {found.url} (process {found.pid}).", hint="`anygpu down` stops it."
        )
    embedded.make_state(state)
    context.exit(_in_foreground(as_json))


def _in_foreground(as_json: bool) -> int:
    from anygpu.sdk import embedded

    state = embedded.state_dir()
    # Whoever ends us ends the server: a service manager sends SIGTERM where a person presses Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    child = subprocess.Popen(embedded.command(state), stdout=subprocess.DEVNULL, process_group=0)
    try:
        while child.poll() is None and (found := embedded.running(state)) is None:
            time.sleep(embedded.POLL_S)
        if child.returncode is None and found is not None:
            announce(found, as_json, how_to_stop="Ctrl-C or `anygpu down`")
        return child.wait()
    except KeyboardInterrupt:
        print("anygpu: stopping", file=sys.stderr)
        child.terminate()
        child.wait()
        return 0


def announce(found: "Running", as_json: bool, *, how_to_stop: str) -> None:
    """The address, and a link that opens it: the link works once and carries no token."""
    from anygpu.sdk.client import Client

    link = browser_link(Client(lambda: found.endpoint))
    if as_json:
        emit_json_line({"url": found.url, "pid": found.pid, "link": link})
        return
    print(f"anygpu server at {found.url} (process {found.pid})")
    print(f"in a browser: {link}  (works once; `anygpu open` makes another)")
    print(f"stop it with {how_to_stop}", flush=True)


def browser_link(client: "Client") -> str:
    """A one-time link, with the server's address where the server gave only a path."""
    from urllib.parse import urljoin

    answer = client.login_link()
    return urljoin(
        client.http.endpoint.url + "/", str(answer.get("url") or answer.get("link") or answer["path"])
    )
