"""`anygpu machine`, `ssh` and `sweep`: list, enter and end rented machines."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.root import SuggestingGroup
from anygpu.cli.terminal import formatting, output
from anygpu.cli.terminal.output import emit, emit_json
from anygpu.control.ids import short_id
from anygpu.errors import AnygpuError
from anygpu.sdk.client import Client


class NeedsSsh(AnygpuError):
    """There is no `ssh` on this computer. Install the OpenSSH client."""

    code = "needs_ssh"


def open_shell(client: Client, job: str, command: tuple[str, ...], *, as_json: bool = False) -> None:
    """Run the system's `ssh` to a job's machine and exit with the exit code of the remote command."""
    if as_json:
        emit_json(client.shell(job))
        return
    program = shutil.which("ssh")
    if program is None:
        raise NeedsSsh
    shell, about = client.shell(job), client.job(job)
    _print_cost(about)
    with tempfile.TemporaryDirectory(prefix="anygpu-ssh-") as directory:
        done = subprocess.run([program, *ssh_arguments(shell, Path(directory)), *command], check=False)
    sys.exit(done.returncode)


def ssh_arguments(shell: dict[str, Any], directory: Path) -> list[str]:
    """Return `ssh` options that ignore the user's own SSH configuration: SSH agent, known hosts and keys."""
    options = {
        "UserKnownHostsFile": str(_write_known_hosts(shell, directory)),
        "GlobalKnownHostsFile": "/dev/null",
    }
    options["StrictHostKeyChecking"] = "yes" if shell["host_keys"] else "accept-new"
    if shell["private_key"]:
        options |= {"IdentityFile": str(_write_key(shell, directory)), "IdentitiesOnly": "yes"}
    chosen = [part for name, value in options.items() for part in ("-o", f"{name}={value}")]
    return [*chosen, "-p", str(shell["port"]), f"{shell['user']}@{shell['host']}"]


def _write_known_hosts(shell: dict[str, Any], directory: Path) -> Path:
    host = shell["host"] if shell["port"] == 22 else f"[{shell['host']}]:{shell['port']}"
    path = directory / "known_hosts"
    path.write_text("".join(f"{host} {key}\n" for key in shell["host_keys"]))
    return path


def _write_key(shell: dict[str, Any], directory: Path) -> Path:
    path = directory / "key"
    path.touch(mode=0o600)
    path.write_text(shell["private_key"])
    return path


def _print_cost(job: dict[str, Any]) -> None:
    if job.get("cost_microusd"):
        sys.stderr.write(
            f"{job.get('name') or job['id']}: {formatting.money(job['cost_microusd'])} so far.\n"
        )


HEADING = ("MACHINE", "BACKEND", "TYPE", "JOB", "STATE", "FOR", "PRICE", "COST")


@click.group(name="machine", cls=SuggestingGroup)
def machine_command() -> None:
    """List and end rented machines."""


@machine_command.command(name="ls")
@json_option
@context_option
def list_machines(as_json: bool, context_name: str) -> None:
    """List the project's machines. Operators also see machines that no job owns, and leftover resources."""
    inventory = connect(context_name).machines()
    if as_json:
        emit_json(inventory)
        return
    machines, leftovers = inventory["machines"], inventory["leftovers"]
    emit(_machine_table(machines) if machines else ["No machines: nothing is being billed."])
    if leftovers:
        emit(["", *_leftover_table(leftovers)])
    for backend, why in inventory["silent"].items():
        emit(["", output.paint(f"{backend} does not answer: {why}", "red", on=output.use_colour())])


@machine_command.command(name="rm")
@click.argument("name")
@click.option(
    "--force", is_flag=True, help="End the machine even if a job uses it. The job resumes on another machine."
)
@json_option
@context_option
def remove_machine(name: str, force: bool, as_json: bool, context_name: str) -> None:
    """End the rented machine NAME."""
    connect(context_name).end_machine(name, force=force)
    emit_json({"name": name, "ending": True}) if as_json else emit([f"Ending machine {name}."])


@machine_command.command(name="release")
@click.argument("job", default="last")
@json_option
@context_option
def release_machine(job: str, as_json: bool, context_name: str) -> None:
    """Release the machine that is held after JOB failed (`hold_on_failure`)."""
    answer = connect(context_name).release(job)
    emit_json(answer) if as_json else emit([f"Released the machine of {answer['name'] or answer['id']}."])


@machine_command.command(name="ssh")
@click.argument("job", default="last")
@click.argument("words_after", nargs=-1, metavar="[COMMAND]...")
@json_option
@context_option
def machine_ssh(job: str, words_after: tuple[str, ...], as_json: bool, context_name: str) -> None:
    """Open a shell on the machine of JOB, or run COMMAND there. --json prints only the login data."""

    open_shell(connect(context_name), job, words_after, as_json=as_json)


def _machine_table(machines: list[dict[str, Any]]) -> list[str]:
    return output.table(HEADING, [_machine_row(each) for each in machines])


def _machine_row(each: dict[str, Any]) -> tuple[str, ...]:
    kind = f"{each['offer'] or '-'}{' spot' if each['interruptible'] else ''}"
    return (
        each["name"],
        each["backend"],
        kind,
        each["job_name"] or (short_id(each["job"]) if each["job"] else "-"),
        each["state"],
        formatting.duration(formatting.seconds_since(each["since"])),
        _price_text(each["price_microusd_per_hour"]),
        formatting.money(each["cost_microusd"]) if each["cost_microusd"] is not None else "-",
    )


def _price_text(price: int | None) -> str:
    return "unknown" if price is None else f"{formatting.money(price)}/h"


def _leftover_table(leftovers: list[dict[str, Any]]) -> list[str]:
    rows = [(each["kind"], each["id"], each["backend"], each["name"] or "-") for each in leftovers]
    return output.table(("LEFTOVER", "ID", "BACKEND", "MACHINE"), rows)


@click.command(name="ssh", context_settings={"ignore_unknown_options": True})
@click.argument("job", default="last")
@click.argument("command_there", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND]...")
@json_option
@context_option
def ssh_command(job: str, command_there: tuple[str, ...], as_json: bool, context_name: str) -> None:
    """Open a shell on the machine of JOB, or run COMMAND there. --json prints only the login data.

    A machine that is held after a failure costs money until you release it with `anygpu machine release`.
    """
    open_shell(connect(context_name), job, command_there, as_json=as_json)


@click.command(name="sweep")
@json_option
@context_option
def sweep_command(as_json: bool, context_name: str) -> None:
    """End machines that no job owns, and delete resources they left. The server does this every minute anyway."""
    result = connect(context_name).sweep()
    if as_json:
        emit_json(result)
        return
    lines = [f"Ending machine {each['name']} at {each['backend']}." for each in result["machines"]]
    lines += [f"Deleting {each['kind']} {each['id']} at {each['backend']}." for each in result["leftovers"]]
    emit(lines or ["Nothing to clean up."])
    emit(f"{what}: {why}" for what, why in result["troubles"].items())
