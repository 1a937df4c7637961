"""`anygpu token`: tokens for programs and people."""

from typing import Any

import click

from anygpu.cli import table
from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.groups import Named
from anygpu.cli.output import emit, emit_json


@click.group(name="token", cls=Named)
def command() -> None:
    """Tokens for programs and people."""


@command.command(name="create")
@click.argument("name")
@click.option("--role", help="viewer, member, admin or operator. Default: member.")
@click.option("--project", help="The project it is for. Default: yours.")
@click.option("--person", help="Whom it speaks for. Default: you.")
@click.option("--expires", help="How long it works, such as 90d. Default: until revoked.")
@json_option
@context_option
def create(
    name: str,
    role: str | None,
    project: str | None,
    person: str | None,
    expires: str | None,
    as_json: bool,
    context_name: str,
) -> None:
    """Make a token called NAME. It is shown this once."""
    from anygpu.spec.units import seconds

    try:
        life_s = seconds(expires) if expires else None
    except ValueError as error:
        raise click.UsageError(f"--expires {expires!r} {error}.") from None
    made = connect(context_name).create_token(
        name=name, role=role, project=project, person=person, expires_s=life_s
    )
    if as_json:
        emit_json(made)
    else:
        emit([str(made["token"])])
        click.echo("anygpu: shown this once; `anygpu login` or ANYGPU_TOKEN takes it", err=True)


@command.command(name="ls")
@json_option
@context_option
def list_tokens(as_json: bool, context_name: str) -> None:
    """The tokens, without their secret part."""
    found = connect(context_name).tokens()
    if as_json:
        emit_json(found)
    else:
        emit(_rows(found["tokens"]))


def _rows(tokens: list[dict[str, Any]]) -> list[str]:
    columns = ("id", "name", "role", "project", "person", "purpose", "created_at", "expires_at")
    rows = [tuple(str(token.get(key) or "-") for key in columns) for token in tokens]
    return table.table(tuple(name.upper().removesuffix("_AT") for name in columns), rows)


@command.command(name="revoke")
@click.argument("token_id", metavar="ID")
@json_option
@context_option
def revoke(token_id: str, as_json: bool, context_name: str) -> None:
    """End the token with this ID, at once."""
    connect(context_name).revoke_token(token_id)
    emit_json({"id": token_id, "revoked": True}) if as_json else emit([f"revoked {token_id}"])
