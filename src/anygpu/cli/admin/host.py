"""`anygpu host`: use your own machines over SSH. Each host is a backend of kind `ssh`."""

import asyncio
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anygpu.cli import exits
from anygpu.cli.admin.backend import check_lines
from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.root import SuggestingGroup, suggestion
from anygpu.cli.terminal import formatting, output
from anygpu.cli.terminal.output import emit, emit_json
from anygpu.errors import NotFound

if TYPE_CHECKING:
    from anygpu.backends.ssh.login import Login

KIND = "ssh"


@click.group(name="host", cls=SuggestingGroup)
def host_command() -> None:
    """Boxes of your own: no root and no Docker needed on them."""


@host_command.command(name="add")
@click.argument("box", metavar="[USER@]BOX[:PORT]")
@click.option("--name", default="", help="What to call it; without it, like the box.")
@click.option("--identity", "-i", default="", metavar="FILE", help="Private key to log in with.")
@click.option("--send-key", is_flag=True, help="Keep that key in the server's vault: for a server elsewhere.")
@click.option("--price", default=0.0, metavar="DOLLARS", help="What an hour of it is counted as (default 0).")
@click.option("--cpus", default=0, metavar="N", help="CPU slots; without it, as many as it has processors.")
@click.option(
    "--python", default="", metavar="PATH", help="The Python to run jobs with; else the first found."
)
@click.option("--yes", "-y", is_flag=True, help="Trust the host key it shows.")
@json_option
@context_option
def add_host(
    box: str,
    name: str,
    identity: str,
    send_key: bool,
    price: float,
    cpus: int,
    python: str,
    yes: bool,
    as_json: bool,
    context_name: str,
) -> None:
    """Log in to BOX, look at what it has and lacks, and let jobs run there."""
    if send_key and not identity:
        raise click.UsageError("--send-key sends the key that --identity names.")
    login = _parse_login(box, name, identity)
    key = _confirm_host_key(login, yes=yes)
    facts = _inspect_host(login, key, python)
    options = {
        "host": box,
        "host_keys": [key],
        "identity": "" if send_key else login.identity,
        "price_microusd_per_hour": round(price * 1_000_000),
        "cpus": cpus,
        "python": python,
    }
    credentials = {"private_key": Path(login.identity).read_text()} if send_key else {}
    backends = connect(context_name, start=True).backends
    chosen = {option: value for option, value in options.items() if value}
    made = backends.add(login.machine, KIND, chosen, credentials, replace=True)
    _print_added(made, facts, backends.check(login.machine), as_json=as_json)


@host_command.command(name="ls")
@json_option
@context_option
def list_hosts(as_json: bool, context_name: str) -> None:
    """The boxes jobs can run on."""
    found = _ssh_backends(connect(context_name).backends.list())
    if as_json:
        emit_json({"hosts": found})
        return
    rows = [_host_row(each) for each in found]
    emit(
        output.table(("NAME", "BOX", "STATE", "PRICE"), rows)
        if rows
        else ["no boxes; `anygpu host add user@box` adds one"]
    )


@host_command.command(name="check")
@click.argument("name", default="")
@json_option
@context_option
@click.pass_context
def check_hosts(context: click.Context, /, name: str, as_json: bool, context_name: str) -> None:
    """Try NAME, or every box, from the server: does it answer, what has it, what does it lack?"""
    backends = connect(context_name).backends
    boxes = _ssh_backends(backends.list())
    names = [_find_host(name, boxes)["name"]] if name else [each["name"] for each in boxes]
    found = [backends.check(each) for each in names]
    if as_json:
        emit_json({"checks": found})
    else:
        emit(line for each in found for line in check_lines(each, colour=output.use_colour()))
    context.exit(exits.OK if all(each["valid"] for each in found) else exits.FAILED)


@host_command.command(name="rm")
@click.argument("name")
@click.option("--force", is_flag=True, help="Even while jobs run there, which then go on unwatched.")
@json_option
@context_option
def remove_host(name: str, force: bool, as_json: bool, context_name: str) -> None:
    """Forget NAME. What its jobs left there stays until it is a day old."""
    backends = connect(context_name).backends
    _find_host(name, _ssh_backends(backends.list()))
    gone = backends.remove(name, force=force)
    emit_json(gone) if as_json else emit([f"removed {name}"])


# -- looking at a box from here -------------------------------------------------------------------------------


def _parse_login(box: str, name: str, identity: str) -> "Login":
    from pydantic import TypeAdapter, ValidationError

    from anygpu.backends.ssh.login import Login
    from anygpu.backends.ssh.options import Address, parted

    try:
        user, host, port = parted(TypeAdapter(Address).validate_python(box))
    except (ValidationError, ValueError) as error:
        raise click.UsageError(f"{box!r} is not [user@]box[:port].") from error
    if identity and not Path(identity).expanduser().is_file():
        raise click.UsageError(f"There is no key file {identity}.")
    called = name or re.sub(r"[^a-z0-9-]+", "-", host.lower()).strip("-")
    file = str(Path(identity).expanduser().absolute()) if identity else ""
    return Login(machine=called, host=host, port=port, user=user, identity=file)


def _confirm_host_key(login: "Login", *, yes: bool) -> str:
    """The host key it shows, confirmed by whoever adds it, as `ssh` does at the first login."""
    from anygpu.backends.ssh.connection import fingerprint, shown_key

    key = asyncio.run(shown_key(login))
    print(f"anygpu: {login.host} shows the host key {fingerprint(key)}", file=sys.stderr, flush=True)
    if not yes and not (sys.stdin.isatty() and click.confirm("Is that the box you mean?", err=True)):
        raise click.UsageError(
            "Nothing was added. Compare the key with the box's own, and add it with --yes."
        )
    return key


def _inspect_host(login: "Login", key: str, python: str) -> dict[str, Any]:
    """What it says of itself: also brings the agent there, so that the first job starts faster."""
    from dataclasses import replace

    from anygpu.backends.ssh.boxes import asked_once

    return asyncio.run(asked_once(replace(login, host_keys=(key,)), {"do": "check"}, python=python))


def _print_added(made: dict[str, Any], facts: dict[str, Any], seen: dict[str, Any], *, as_json: bool) -> None:
    from anygpu.backends.ssh.findings import lacking, summary

    if as_json:
        emit_json({**made, "facts": facts, "lacking": lacking(facts), "check": seen})
        return
    name, colour = made["name"], output.use_colour()
    emit([f"{name}: {summary(facts)}"])
    emit(f"{output.paint_status('warn', on=colour)}  {sentence}" for sentence in lacking(facts))
    if seen["valid"]:
        emit([f"{name} is there; `anygpu run --on {name} train.py` runs there"])
    else:
        emit([f"{output.paint_status('warn', on=colour)}  the server cannot use it yet: {seen['why']}"])


# -- the boxes the server knows -------------------------------------------------------------------------------


def _ssh_backends(listed: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in listed["backends"] if each["kind"] == KIND]


def _find_host(name: str, boxes: list[dict[str, Any]]) -> dict[str, Any]:
    for each in boxes:
        if each["name"] == name:
            return each
    known = [each["name"] for each in boxes]
    raise NotFound(f"There is no box {name!r}.{suggestion(name, known) if known else ''}")


def _host_row(each: dict[str, Any]) -> tuple[str, ...]:
    options = each["options"]
    where = [options["host"]] if options.get("host") else []
    price = options.get("price_microusd_per_hour", 0)
    state = each["state"] if not each["reason"] else f"{each['state']}: {each['reason']}"
    return each["name"], ", ".join([*where, *options.get("hosts", [])]), state, f"{formatting.money(price)}/h"
