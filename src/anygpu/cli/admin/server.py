"""`anygpu up`, `down`, `open` and `gc`: run the server on this computer and remove old data."""

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.terminal import output
from anygpu.cli.terminal.output import emit, emit_json, emit_json_line
from anygpu.errors import Conflict

if TYPE_CHECKING:
    from anygpu.sdk.client import Client
    from anygpu.sdk.embedded import RunningServer


@click.command(name="up")
@click.option("--detach", "-d", is_flag=True, help="Start it in the background and leave.")
@json_option
@click.pass_context
def up_command(context: click.Context, /, detach: bool, as_json: bool) -> None:
    """Run the server here, print its address and a link for the browser."""
    from anygpu.sdk import embedded

    state = embedded.state_dir()
    if detach:
        print_address(embedded.ensure_running(state), as_json, how_to_stop="`anygpu down`")
        return
    if (found := embedded.find_running(state)) is not None:
        raise Conflict(
            f"A server runs already at {found.url} (process {found.pid}).", hint="`anygpu down` stops it."
        )
    embedded.create_state_dir(state)
    context.exit(_run_in_foreground(as_json))


def _run_in_foreground(as_json: bool) -> int:
    from anygpu.sdk import embedded

    state = embedded.state_dir()
    # Whoever ends us ends the server: a service manager sends SIGTERM where a person presses Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    child = subprocess.Popen(embedded.server_command(state), stdout=subprocess.DEVNULL, process_group=0)
    try:
        while child.poll() is None and (found := embedded.find_running(state)) is None:
            time.sleep(embedded.POLL_S)
        if child.returncode is None and found is not None:
            print_address(found, as_json, how_to_stop="Ctrl-C or `anygpu down`")
        return child.wait()
    except KeyboardInterrupt:
        print("anygpu: stopping", file=sys.stderr)
        child.terminate()
        child.wait()
        return 0


def print_address(found: "RunningServer", as_json: bool, *, how_to_stop: str) -> None:
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


@click.command(name="down")
@json_option
def down_command(as_json: bool) -> None:
    """Stop the server of this machine. Jobs go on, and are found again when it is back."""
    from anygpu.sdk import embedded

    state = embedded.state_dir()
    pid = embedded.stop(state)
    if as_json:
        emit_json({"stopped": pid is not None, "pid": pid, "state": str(state)})
    else:
        emit(["no server runs on this machine" if pid is None else f"server stopped (process {pid})"])


@click.command(name="open")
@click.option("--print", "only_print", is_flag=True, help="Print the link; open no browser.")
@json_option
@context_option
def open_command(only_print: bool, as_json: bool, context_name: str) -> None:
    """Open the server's page in a browser. The link works once and carries no token."""
    link = browser_link(connect(context_name, start=True))
    opened = False
    if not only_print and not as_json:
        import webbrowser

        opened = webbrowser.open(link)
    emit_json({"link": link}) if as_json else emit([link if not opened else f"opened {link}"])


@click.command(name="gc")
@click.option("--dry-run", is_flag=True, help="Only tell what would be removed.")
@json_option
@context_option
def gc_command(dry_run: bool, as_json: bool, context_name: str) -> None:
    """Remove what retention no longer keeps: old logs, metrics and files of ended jobs."""
    removed = connect(context_name).gc(dry_run=dry_run)
    if as_json:
        emit_json(removed)
    else:
        emit([*_removed_lines(removed), *(["nothing was removed: this was a dry run"] if dry_run else [])])


def _removed_lines(removed: dict[str, Any]) -> list[str]:
    pairs = [
        (key.replace("_", " "), str(len(value)) if isinstance(value, list) else str(value))
        for key, value in removed.items()
        if key != "dry_run"
    ]
    return output.fields(pairs)
