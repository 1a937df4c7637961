"""From a command to its server, and what is said when one had to be started."""

import sys
from typing import Any, Protocol, TypeVar

import click

from anygpu.sdk import context as contexts
from anygpu.sdk.client import Client
from anygpu.sdk.context import Context
from anygpu.sdk.http import Endpoint, EndpointLocator

F = TypeVar("F")


class Decorator(Protocol):
    def __call__(self, function: F) -> F: ...


def json_option(function: F) -> F:
    """`--json`: machine readable, stable."""
    decorate: Any = click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
    decorated: F = decorate(function)
    return decorated


def context_option(function: F) -> F:
    """`--context`: another server than the one in use."""
    decorate: Any = click.option(
        "--context", "context_name", default="", help="The server to ask (`anygpu context ls`)."
    )
    decorated: F = decorate(function)
    return decorated


def connect(name: str = "", *, start: bool = False) -> Client:
    """A client of the chosen server. The embedded one is started only by commands that make work for it."""
    context = contexts.find_context(name)
    return Client(_locator(context, start))


def _locator(context: Context, start: bool) -> EndpointLocator:
    if context.is_embedded:
        return _EmbeddedLocator(start)
    return lambda: contexts.endpoint_of(context)


class _EmbeddedLocator:
    """The server of this machine. One that died is started again; one that was stopped on purpose is not."""

    def __init__(self, start: bool) -> None:
        self._start = start

    def __call__(self) -> Endpoint:
        from anygpu.errors import ServerUnreachable
        from anygpu.sdk import embedded

        state = embedded.state_dir()
        found = embedded.find_running(state)
        if found is None and (self._start or embedded.has_crashed(state)):
            found = embedded.ensure_running(state, _print_starting)
            print(f"anygpu: server started at {found.url} (`anygpu down` stops it)", file=sys.stderr)
        if found is None:
            raise ServerUnreachable(
                "No anygpu server runs on this machine.",
                hint="`anygpu run` starts one, or start it with `anygpu up`.",
            )
        self._start = False
        return found.endpoint


def _print_starting() -> None:
    print("anygpu: no server runs on this machine; starting one", file=sys.stderr, flush=True)
