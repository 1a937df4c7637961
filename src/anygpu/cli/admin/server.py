"""`anygpu up`, `down`, `open` and `gc`: run the server on this computer and remove old data."""

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import click

from anygpu.cli import exits
from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.exits import print_message
from anygpu.cli.terminal import output
from anygpu.cli.terminal.output import emit, emit_json, emit_json_line
from anygpu.errors import Conflict

if TYPE_CHECKING:
    from anygpu.sdk.client import Client
    from anygpu.sdk.embedded import RunningServer


@click.command(name="up")
@click.option("--detach", "-d", is_flag=True, help="Start the server in the background and exit.")
@click.option(
    "--accept-new-keys",
    is_flag=True,
    help="Start even if a key file is missing or is not the one that this database was used with.",
)
@json_option
@click.pass_context
def up_command(context: click.Context, /, detach: bool, accept_new_keys: bool, as_json: bool) -> None:
    """Run the server in the foreground. Prints its address and a login link for the browser."""
    from anygpu.sdk import embedded

    state = embedded.state_dir()
    if (server := embedded.find_running(state)) is not None and (accept_new_keys or not detach):
        raise Conflict(
            f"A server is already running at {server.url} (process {server.pid}).",
            hint="Stop it with `anygpu down`.",
        )
    if detach:
        server = embedded.ensure_running(state, accept_new_keys=accept_new_keys)
        print_address(server, as_json, how_to_stop="`anygpu down`")
        return
    embedded.create_state_dir(state)
    context.exit(_run_in_foreground(as_json, accept_new_keys=accept_new_keys))


def _run_in_foreground(as_json: bool, *, accept_new_keys: bool) -> int:
    from anygpu.sdk import embedded

    state = embedded.state_dir()
    command = embedded.server_command(state, accept_new_keys=accept_new_keys)
    # Treat a service manager's SIGTERM like Ctrl-C, so that the server stops with this process.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, process_group=0)
    try:
        while child.poll() is None and (server := embedded.find_running(state)) is None:
            time.sleep(embedded.POLL_S)
        if child.returncode is None and server is not None:
            print_address(server, as_json, how_to_stop="Ctrl-C or `anygpu down`")
        return child.wait()
    except KeyboardInterrupt:
        print_message("Stopping the server.")
        child.terminate()
        child.wait()
        return 0


def print_address(server: "RunningServer", as_json: bool, *, how_to_stop: str) -> None:
    """Print the server's address and a login link that works once."""
    from anygpu.sdk.client import Client

    link = browser_link(Client(lambda: server.endpoint))
    if as_json:
        emit_json_line({"url": server.url, "pid": server.pid, "link": link})
        return
    print(f"Server running at {server.url} (process {server.pid}).")
    print(f"Open in a browser: {link}  (works once; `anygpu open` prints a new link)")
    print(f"Stop it with {how_to_stop}.", flush=True)


def browser_link(client: "Client", page: str = "", *, expires_s: float | None = None) -> str:
    """Request a login link that works once, and return its full URL. It opens the given page of the web app."""
    from urllib.parse import urlencode, urljoin

    answer = client.login_link(expires_s=expires_s)
    link = urljoin(client.http.endpoint.url + "/", str(answer["url"]))
    return f"{link}?{urlencode({'next': page}, safe='/')}" if page else link


@click.command(name="down")
@json_option
def down_command(as_json: bool) -> None:
    """Stop the server on this computer. Jobs keep running; the server finds them when it is started again."""
    from anygpu.sdk import embedded

    state = embedded.state_dir()
    pid = embedded.stop(state)
    if as_json:
        emit_json({"stopped": pid is not None, "pid": pid, "state": str(state)})
    else:
        emit(
            [
                "No server is running on this computer."
                if pid is None
                else f"Stopped the server (process {pid})."
            ]
        )


@click.command(name="open")
@click.argument("job", required=False)
@click.option("--print", "only_print", is_flag=True, help="Print the link without opening a browser.")
@json_option
@context_option
def open_command(job: str | None, only_print: bool, as_json: bool, context_name: str) -> None:
    """Open the web app, or the page of JOB, in a browser. Uses a login link that works once.

    Without a browser on this computer, only the link is printed.
    """
    from anygpu.sdk.client import job_page_path

    client = connect(context_name, start=True)
    link = browser_link(client, job_page_path(client.job(job)["id"]) if job else "")
    if as_json:
        emit_json({"link": link})
    else:
        emit([f"Opened {link}" if not only_print and _open_in_browser(link) else link])


def _open_in_browser(link: str) -> bool:
    """Open a link in a graphical browser, and return whether that worked.

    Without a screen, nothing is opened: Python would start a text browser in this terminal.
    """
    import webbrowser

    has_screen = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER")
    )
    return has_screen and webbrowser.open(link)


@click.command(name="gc")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
@click.option(
    "--force", is_flag=True, help="Delete files even if they are more than the share in store.gc_max_share."
)
@click.option("--adopt", is_flag=True, help="Accept that the stored files belong to this database.")
@click.option("--empty-trash", is_flag=True, help="Delete all files in the trash now.")
@json_option
@context_option
@click.pass_context
def gc_command(
    context: click.Context,
    /,
    dry_run: bool,
    force: bool,
    adopt: bool,
    empty_trash: bool,
    as_json: bool,
    context_name: str,
) -> None:
    """Delete logs, metrics and files of ended jobs whose retention time is over.

    Files are moved to the trash first and deleted some days later.
    """
    removed = connect(context_name).gc(dry_run=dry_run, force=force, adopt=adopt, empty_trash=empty_trash)
    if as_json:
        emit_json(removed)
    else:
        emit([*_removed_lines(removed), *(["Nothing was deleted (dry run)."] if dry_run else [])])
    context.exit(exits.FAILED if removed.get("refused") else exits.OK)


def _removed_lines(removed: dict[str, Any]) -> list[str]:
    pairs = [
        (key.replace("_", " "), str(len(value)) if isinstance(value, list) else str(value))
        for key, value in removed.items()
        if key != "dry_run" and value is not None
    ]
    return output.fields(pairs)
