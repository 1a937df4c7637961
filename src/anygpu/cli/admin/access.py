"""`anygpu login`, `context`, `token` and `secret`: servers, tokens and stored secrets."""

import sys
from typing import Any
from urllib.parse import urlsplit

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.exits import print_message
from anygpu.cli.root import SuggestingGroup
from anygpu.cli.terminal import output
from anygpu.cli.terminal.output import emit, emit_json
from anygpu.sdk.client import Client
from anygpu.sdk.context import EMBEDDED, Context, find_context, load_contexts, locator_of, save_contexts
from anygpu.sdk.failover import split_urls


@click.group(name="secret", cls=SuggestingGroup)
def secret_command() -> None:
    """Store values that jobs need, such as API keys, encrypted on the server."""


@secret_command.command(name="set")
@click.argument("name")
@json_option
@context_option
def set_secret(name: str, as_json: bool, context_name: str) -> None:
    """Store a secret called NAME. The value comes from a hidden prompt or from standard input."""
    value = read_secret(f"Value of {name}")
    if not value:
        raise click.UsageError(
            "The value is empty. Type it, or pass a file: `anygpu secret set NAME < file`."
        )
    connect(context_name, start=True).set_secret(name, value)
    emit_json({"name": name, "stored": True}) if as_json else emit(
        [f"Stored secret {name}. Use it with `anygpu run --secret {name}`."]
    )


@secret_command.command(name="ls")
@json_option
@context_option
def list_secrets(as_json: bool, context_name: str) -> None:
    """List the names of the secrets. Values are never shown."""
    secrets = connect(context_name).secrets()
    if as_json:
        emit_json(secrets)
        return
    emit(
        [each["name"] for each in secrets["secrets"]]
        or ["No secrets. Store one with `anygpu secret set NAME`."]
    )


@secret_command.command(name="rm")
@click.argument("name")
@json_option
@context_option
def remove_secret(name: str, as_json: bool, context_name: str) -> None:
    """Delete secret NAME."""
    connect(context_name).remove_secret(name)
    emit_json({"name": name, "removed": True}) if as_json else emit([f"Deleted secret {name}."])


def read_secret(what: str) -> str:
    """Read a secret from a hidden prompt, or from standard input without the final newline."""
    if sys.stdin.isatty():
        return str(click.prompt(what, hide_input=True, err=True))
    return sys.stdin.read().removesuffix("\n").removesuffix("\r")


@click.command(name="login")
@click.argument("url")
@click.option("--name", "-n", default="", help="Name of the context. Default: the server's host name.")
@json_option
def login_command(url: str, name: str, as_json: bool) -> None:
    """Log in to the server at URL and make it the current one. The token comes from a prompt or standard input.

    URL may be a list of several servers that share a database, separated by commas. If one fails, another is used.
    """
    hosts = [_require_host(each) for each in split_urls(url)] or [_require_host(url)]
    token = read_secret(f"Token for {hosts[0]}").strip()
    context = Context(name or hosts[0], ",".join(split_urls(url)), token)
    who = Client(locator_of(context)).whoami()
    save_contexts(load_contexts().with_added(context))
    if as_json:
        emit_json({"context": context.name, "url": context.url, "whoami": who})
    else:
        emit([f"Logged in to {context.url} as {who.get('person') or '-'}. Current context: {context.name}."])


def _require_host(url: str) -> str:
    """Return the host of a server's URL. Warn if the connection to it is not encrypted."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise click.UsageError(
            f"{url!r} is not the address of a server. Write it as https://host or https://host:port."
        )
    _warn_plain_http(parts.scheme, parts.hostname)
    return parts.hostname


def _warn_plain_http(scheme: str, host: str) -> None:
    if scheme == "http" and host not in ("localhost", "::1") and not host.startswith("127."):
        print_message(
            f"Warning: the connection to {host} is not encrypted. Others on the network can read the token."
        )


@click.group(name="context", cls=SuggestingGroup)
def context_command() -> None:
    """Switch between the servers you are logged in to."""


@context_command.command(name="ls")
@json_option
def list_contexts(as_json: bool) -> None:
    """List the servers you are logged in to. The current one is marked."""
    stored = load_contexts()
    current = find_context().name
    contexts = [
        {"name": EMBEDDED, "url": "this computer"},
        *({"name": c.name, "url": c.url} for c in stored.by_name.values()),
    ]
    if current == "environment":
        contexts.append({"name": current, "url": find_context().url})
    if as_json:
        emit_json({"current": current, "contexts": contexts})
        return
    rows = [("*" if each["name"] == current else "", each["name"], each["url"]) for each in contexts]
    emit(output.table(("", "NAME", "URL"), rows))


@context_command.command(name="use")
@click.argument("name")
@json_option
def use_context(name: str, as_json: bool) -> None:
    """Make NAME the current server. `local` means the server on this computer."""
    save_contexts(load_contexts().with_current(name))
    emit_json({"current": name}) if as_json else emit([f"Current context: {name}."])


@context_command.command(name="rm")
@click.argument("name")
@json_option
def remove_context(name: str, as_json: bool) -> None:
    """Remove server NAME and its token from this computer."""
    if name == EMBEDDED:
        raise click.UsageError(
            "The context `local` is the server on this computer and cannot be removed. To stop that server, "
            "run `anygpu down`."
        )
    left = load_contexts().with_removed(name)
    save_contexts(left)
    emit_json({"removed": name, "current": left.current}) if as_json else emit(
        [f"Removed context {name}. Current context: {left.current}."]
    )


@click.group(name="token", cls=SuggestingGroup)
def token_command() -> None:
    """Create, list and revoke API tokens."""


@token_command.command(name="create")
@click.argument("name")
@click.option("--role", help="Role: viewer, member, admin or operator. Default: member.")
@click.option("--project", help="Project of the token. Default: yours.")
@click.option("--person", help="User the token belongs to. Default: you.")
@click.option("--expires", help="Lifetime, for example 90d. Default: until revoked.")
@json_option
@context_option
def create_token(
    name: str,
    role: str | None,
    project: str | None,
    person: str | None,
    expires: str | None,
    as_json: bool,
    context_name: str,
) -> None:
    """Create a token called NAME. The token is shown only once."""
    from anygpu.spec.units import seconds

    try:
        life_s = seconds(expires) if expires else None
    except ValueError as error:
        raise click.UsageError(f"--expires {expires!r} {error}.") from None
    created = connect(context_name).create_token(
        name=name, role=role, project=project, person=person, expires_s=life_s
    )
    if as_json:
        emit_json(created)
    else:
        emit([str(created["token"])])
        print_message(
            "The token is shown only this once. Use it with `anygpu login`, or in the variable ANYGPU_TOKEN."
        )


@token_command.command(name="ls")
@json_option
@context_option
def list_tokens(as_json: bool, context_name: str) -> None:
    """List the tokens, without their secret part."""
    tokens = connect(context_name).tokens()
    if as_json:
        emit_json(tokens)
    else:
        emit(_token_table(tokens["tokens"]))


def _token_table(tokens: list[dict[str, Any]]) -> list[str]:
    columns = ("id", "name", "role", "project", "person", "purpose", "created_at", "expires_at")
    rows = [tuple(str(token.get(key) or "-") for key in columns) for token in tokens]
    return output.table(tuple(name.upper().removesuffix("_AT") for name in columns), rows)


@token_command.command(name="revoke")
@click.argument("token_id", metavar="ID")
@json_option
@context_option
def revoke_token(token_id: str, as_json: bool, context_name: str) -> None:
    """Revoke the token with this ID immediately."""
    connect(context_name).revoke_token(token_id)
    emit_json({"id": token_id, "revoked": True}) if as_json else emit([f"Revoked token {token_id}."])
