"""The connection of a command to its server, and the options that every command has."""

from typing import Any, Protocol, TypeVar

import click

from anygpu.cli.exits import print_message
from anygpu.sdk import context as contexts
from anygpu.sdk.client import Client
from anygpu.sdk.context import Context
from anygpu.sdk.http import Endpoint, EndpointLocator

F = TypeVar("F")


class Decorator(Protocol):
    def __call__(self, function: F) -> F: ...


def json_option(function: F) -> F:
    """Add the option `--json`, for machine-readable output."""
    decorate: Any = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
    decorated: F = decorate(function)
    return decorated


def context_option(function: F) -> F:
    """Add the option `--context`, which selects another server than the current one."""
    decorate: Any = click.option(
        "--context",
        "context_name",
        default="",
        help="Context (server) to use; `anygpu context ls` lists them.",
    )
    decorated: F = decorate(function)
    return decorated


def connect(name: str = "", *, start: bool = False) -> Client:
    """Return a client of the chosen server.

    With `start`, the server on this computer is started if necessary.
    """
    context = contexts.find_context(name)
    return Client(_locator(context, start))


def _locator(context: Context, start: bool) -> EndpointLocator:
    if context.is_embedded:
        return _EmbeddedLocator(start)
    return contexts.locator_of(context)


class _EmbeddedLocator:
    """Finds the server on this computer when it is called.

    A server that crashed is always started again. A server that was stopped is started only if `start` is true.
    """

    def __init__(self, start: bool) -> None:
        self._start = start

    def __call__(self) -> Endpoint:
        from anygpu.errors import ServerUnreachable
        from anygpu.sdk import embedded

        state = embedded.state_dir()
        server = embedded.find_running(state)
        if server is None and (self._start or embedded.has_crashed(state)):
            server = embedded.ensure_running(state, _print_starting)
            print_message(f"Server started at {server.url}. Stop it with `anygpu down`.")
        if server is None:
            raise ServerUnreachable(
                "No anygpu server is running on this computer.",
                hint="Start it with `anygpu up`; `anygpu run` starts it too.",
            )
        self._start = False
        return server.endpoint


def _print_starting() -> None:
    print_message("No server is running on this computer. Starting one.")
