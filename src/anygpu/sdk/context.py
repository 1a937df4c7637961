"""Contexts: the servers that commands can connect to.

A command uses the server named by `--context`, else by ANYGPU_URL, else the current context, which by default is
the server on this computer.
The contexts file is beside the settings file and readable by its owner only, because it contains tokens.
"""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from anygpu.errors import NotFound, Unauthorized
from anygpu.files import write_atomic
from anygpu.paths import config_path
from anygpu.sdk.failover import FailoverLocator, split_urls
from anygpu.sdk.http import Endpoint

EMBEDDED = "local"


@dataclass(frozen=True, slots=True)
class Context:
    """A named server. A context without a URL means the server on this computer.

    `url` may be a list, separated by commas: the addresses of several servers that share a database.
    """

    name: str
    url: str = ""
    token: str = ""
    origin: str = ""

    @property
    def is_embedded(self) -> bool:
        return not self.url

    @property
    def urls(self) -> list[str]:
        return split_urls(self.url)


@dataclass(frozen=True, slots=True)
class Contexts:
    """The servers the user is logged in to, and the current one."""

    path: Path
    current: str = EMBEDDED
    by_name: Mapping[str, Context] = field(default_factory=dict)

    def get(self, name: str) -> Context:
        if name == EMBEDDED:
            return Context(EMBEDDED, origin="this machine")
        if name not in self.by_name:
            names = ", ".join([EMBEDDED, *self.by_name])
            raise NotFound(
                f"There is no login to a server (context) with the name {name!r}.",
                hint=f"There are: {names}. `anygpu login URL` adds one.",
            )
        return self.by_name[name]

    def with_added(self, context: Context) -> "Contexts":
        return Contexts(self.path, context.name, {**self.by_name, context.name: context})

    def with_removed(self, name: str) -> "Contexts":
        self.get(name)
        left = {key: value for key, value in self.by_name.items() if key != name}
        return Contexts(self.path, EMBEDDED if self.current == name else self.current, left)

    def with_current(self, name: str) -> "Contexts":
        self.get(name)
        return Contexts(self.path, name, self.by_name)


def load_contexts(environ: Mapping[str, str] = os.environ) -> Contexts:
    """Read the contexts file. If there is none, the only context is the server on this computer."""
    path = config_path(environ).with_name("contexts.json")
    try:
        stored: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Contexts(path, EMBEDDED, {})
    by_name = {
        name: Context(name, each["url"], each["token"], origin=str(path))
        for name, each in stored["contexts"].items()
    }
    return Contexts(path, stored.get("current", EMBEDDED), by_name)


def save_contexts(all_of_them: Contexts) -> None:
    """Write the contexts file atomically, without ever making it readable by other users."""
    path = all_of_them.path
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    kept = {name: {"url": each.url, "token": each.token} for name, each in all_of_them.by_name.items()}
    text = json.dumps({"current": all_of_them.current, "contexts": kept}, indent=2)
    write_atomic(path, text.encode())


def find_context(name: str = "", environ: Mapping[str, str] = os.environ) -> Context:
    """Return the context called `name`, else the one in ANYGPU_URL and ANYGPU_TOKEN, else the current one."""
    if name:
        return load_contexts(environ).get(name)
    if url := environ.get("ANYGPU_URL"):
        return _from_environment(url, environ)
    chosen = load_contexts(environ)
    return chosen.get(chosen.current)


def _from_environment(url: str, environ: Mapping[str, str]) -> Context:
    token = environ.get("ANYGPU_TOKEN", "")
    if not token:
        raise Unauthorized(
            "ANYGPU_URL is set, but ANYGPU_TOKEN is not.",
            hint="Set both, or unset ANYGPU_URL and use `anygpu login`.",
        )
    if not split_urls(url):
        raise NotFound(
            f"ANYGPU_URL = {url!r} contains no address of a server.",
            hint="Write it as https://host or https://host:port; several are separated by commas.",
        )
    return Context("environment", ",".join(split_urls(url)), token, origin="ANYGPU_URL")


def endpoint_of(context: Context) -> Endpoint:
    """Return the URL of the context's first server, and its token."""
    return Endpoint(context.urls[0], context.token)


def locator_of(context: Context) -> FailoverLocator:
    """Return a locator that uses another server of the context if one fails."""
    return FailoverLocator(context.urls, context.token)
