"""`anygpu host`: use your own machines over SSH. Each host is a backend of kind `ssh`."""

import asyncio
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anygpu.cli.admin.backend import print_checks
from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.exits import print_message
from anygpu.cli.root import SuggestingGroup, no_such
from anygpu.cli.terminal import formatting, output
from anygpu.cli.terminal.output import emit, emit_json
from anygpu.errors import NotFound

if TYPE_CHECKING:
    from anygpu.backends.ssh.connection import SshLogin

KIND = "ssh"


@click.group(name="host", cls=SuggestingGroup)
def host_command() -> None:
    """Use your own machines over SSH. Neither root access nor Docker is needed."""


@host_command.command(name="add")
@click.argument("address", metavar="[USER@]HOST[:PORT]")
@click.option("--name", default="", help="Name of the backend. Default: the host's name.")
@click.option("--identity", "-i", default="", metavar="FILE", help="Private key for the login.")
@click.option(
    "--send-key",
    is_flag=True,
    help="Store the private key on the server. Needed if the server runs on another computer.",
)
@click.option(
    "--price",
    default=0.0,
    metavar="DOLLARS",
    help="Price per hour in dollars that plans and costs use for this host. Default: 0.",
)
@click.option(
    "--cpus", default=0, metavar="N", help="Number of CPUs that jobs may use. Default: all CPUs of the host."
)
@click.option(
    "--python", default="", metavar="PATH", help="Python interpreter for jobs. Default: the first one found."
)
@click.option("--yes", "-y", is_flag=True, help="Trust the host key without asking.")
@json_option
@context_option
def add_host(
    address: str,
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
    """Add one of your machines.

    Logs in over SSH, shows what the machine has and what is missing, and lets jobs run there.
    """
    if send_key and not identity:
        raise click.UsageError("--send-key needs the private key to send. Name its file with --identity.")
    login = _parse_login(address, name, identity)
    key = _confirm_host_key(login, yes=yes)
    facts = _inspect_host(login, key, python)
    options = {
        "host": address,
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
    """List the machines that you added with `anygpu host add`."""
    hosts = _ssh_backends(connect(context_name).backends.list())
    if as_json:
        emit_json({"hosts": hosts})
        return
    rows = [_host_row(each) for each in hosts]
    emit(
        output.table(("NAME", "HOST", "STATE", "PRICE"), rows)
        if rows
        else ["No hosts. Add one with `anygpu host add user@host`."]
    )


@host_command.command(name="check")
@click.argument("name", default="")
@json_option
@context_option
@click.pass_context
def check_hosts(context: click.Context, /, name: str, as_json: bool, context_name: str) -> None:
    """Check that the server can use host NAME (default: all hosts)."""
    backends = connect(context_name).backends
    hosts = _ssh_backends(backends.list())
    names = [_find_host(name, hosts)["name"]] if name else [each["name"] for each in hosts]
    context.exit(print_checks([backends.check(each) for each in names], as_json))


@host_command.command(name="rm")
@click.argument("name")
@click.option(
    "--force",
    is_flag=True,
    help="Remove the host even if jobs run there. The server loses contact with these jobs.",
)
@json_option
@context_option
def remove_host(name: str, force: bool, as_json: bool, context_name: str) -> None:
    """Remove host NAME. Files of its jobs stay there for a day."""
    backends = connect(context_name).backends
    _find_host(name, _ssh_backends(backends.list()))
    removed = backends.remove(name, force=force)
    emit_json(removed) if as_json else emit([f"Removed host {name}."])


def _parse_login(address: str, name: str, identity: str) -> "SshLogin":
    from pydantic import TypeAdapter, ValidationError

    from anygpu.backends.ssh.connection import SshLogin
    from anygpu.backends.ssh.options import HostAddress, split_address

    try:
        user, host, port = split_address(TypeAdapter(HostAddress).validate_python(address))
    except (ValidationError, ValueError) as error:
        raise click.UsageError(
            f"{address!r} is not the address of a host. Write it as host, user@host or user@host:port."
        ) from error
    if identity and not Path(identity).expanduser().is_file():
        raise click.UsageError(f"There is no key file {identity}. Check the path.")
    machine = name or re.sub(r"[^a-z0-9-]+", "-", host.lower()).strip("-")
    file = str(Path(identity).expanduser().absolute()) if identity else ""
    return SshLogin(machine=machine, host=host, port=port, user=user, identity=file)


def _confirm_host_key(login: "SshLogin", *, yes: bool) -> str:
    """Return the host's SSH key after the user has confirmed the key, as `ssh` does at the first login."""
    from anygpu.backends.ssh.connection import fetch_host_key, fingerprint

    key = asyncio.run(fetch_host_key(login))
    print_message(f"The host key of {login.host} is {fingerprint(key)}.")
    if not yes and not (sys.stdin.isatty() and click.confirm("Is this the right key?", err=True)):
        raise click.UsageError(
            "The host was not added. Compare the key with the one on the host, then add it with --yes."
        )
    return key


def _inspect_host(login: "SshLogin", key: str, python: str) -> dict[str, Any]:
    """Return the host's hardware and software.

    The agent is also installed, so that the first job starts faster.
    """
    from dataclasses import replace

    from anygpu.backends.ssh.hosts import request_once

    return asyncio.run(request_once(replace(login, host_keys=(key,)), {"do": "check"}, python=python))


def _print_added(made: dict[str, Any], facts: dict[str, Any], seen: dict[str, Any], *, as_json: bool) -> None:
    from anygpu.backends.ssh.offers import describe_host, missing_requirements

    if as_json:
        emit_json({**made, "facts": facts, "lacking": missing_requirements(facts), "check": seen})
        return
    name, colour = made["name"], output.use_colour()
    emit([f"{name}: {describe_host(facts)}"])
    emit(f"{output.paint_status('warn', on=colour)}  {sentence}" for sentence in missing_requirements(facts))
    if seen["valid"]:
        emit([f"Added host {name}. Run a job there with `anygpu run --on {name} train.py`."])
    else:
        emit([f"{output.paint_status('warn', on=colour)}  the server cannot use the host yet: {seen['why']}"])


def _ssh_backends(listed: dict[str, Any]) -> list[dict[str, Any]]:
    return [each for each in listed["backends"] if each["kind"] == KIND]


def _find_host(name: str, hosts: list[dict[str, Any]]) -> dict[str, Any]:
    for each in hosts:
        if each["name"] == name:
            return each
    raise NotFound(no_such("host", name, [each["name"] for each in hosts]))


def _host_row(each: dict[str, Any]) -> tuple[str, ...]:
    options = each["options"]
    where = [options["host"]] if options.get("host") else []
    price = options.get("price_microusd_per_hour", 0)
    state = each["state"] if not each["reason"] else f"{each['state']}: {each['reason']}"
    return each["name"], ", ".join([*where, *options.get("hosts", [])]), state, f"{formatting.money(price)}/h"
