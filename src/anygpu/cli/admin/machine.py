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
from anygpu.errors import AnygpuError
from anygpu.sdk.client import Client


class NeedsSsh(AnygpuError):
    """There is no `ssh` on this machine. Install OpenSSH's client."""

    code = "needs_ssh"


def open_shell(client: Client, job: str, command: tuple[str, ...], *, as_json: bool = False) -> None:
    """Ends the process with the status of the remote command."""
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
    """Options that use nothing of the person's own: no agent, no known hosts, no other keys."""
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
        sys.stderr.write(f"{job.get('name') or job['id']}: {formatting.money(job['cost_microusd'])} so far\n")


HEADING = ("MACHINE", "BACKEND", "TYPE", "JOB", "STATE", "FOR", "PRICE", "COST")


@click.group(name="machine", cls=SuggestingGroup)
def machine_command() -> None:
    """Machines at the providers: whose they are and what they cost."""


@machine_command.command(name="ls")
@json_option
@context_option
def list_machines(as_json: bool, context_name: str) -> None:
    """Every machine of the project; for operators also those nobody owns, and what machines left behind."""
    found = connect(context_name).machines()
    if as_json:
        emit_json(found)
        return
    machines, leftovers = found["machines"], found["leftovers"]
    emit(_machine_table(machines) if machines else ["no machines; nothing is billing"])
    if leftovers:
        emit(["", *_leftover_table(leftovers)])
    for backend, why in found["silent"].items():
        emit(["", output.paint(f"{backend} does not answer: {why}", "red", on=output.use_colour())])


@machine_command.command(name="rm")
@click.argument("name")
@click.option("--force", is_flag=True, help="Even though a job uses it; the job goes on elsewhere.")
@json_option
@context_option
def remove_machine(name: str, force: bool, as_json: bool, context_name: str) -> None:
    """End the machine NAME."""
    connect(context_name).end_machine(name, force=force)
    emit_json({"name": name, "ending": True}) if as_json else emit([f"ending {name}"])


@machine_command.command(name="release")
@click.argument("job", default="last")
@json_option
@context_option
def release_machine(job: str, as_json: bool, context_name: str) -> None:
    """Give up the machine that is kept after JOB failed (`hold_on_failure`)."""
    answer = connect(context_name).release(job)
    emit_json(answer) if as_json else emit([f"the machine of {answer['name'] or answer['id']} is given up"])


@machine_command.command(name="ssh")
@click.argument("job", default="last")
@click.argument("words_after", nargs=-1, metavar="[COMMAND]...")
@json_option
@context_option
def machine_ssh(job: str, words_after: tuple[str, ...], as_json: bool, context_name: str) -> None:
    """A shell on the machine of JOB, or one COMMAND there; --json only tells how to log in."""

    open_shell(connect(context_name), job, words_after, as_json=as_json)


def _machine_table(machines: list[dict[str, Any]]) -> list[str]:
    return output.table(HEADING, [_machine_row(each) for each in machines])


def _machine_row(each: dict[str, Any]) -> tuple[str, ...]:
    kind = f"{each['offer'] or '-'}{' spot' if each['interruptible'] else ''}"
    return (
        each["name"],
        each["backend"],
        kind,
        each["job_name"] or (formatting.short_id(each["job"]) if each["job"] else "-"),
        each["state"],
        formatting.duration(formatting.seconds_since(each["since"])),
        f"{formatting.money(each['price_microusd_per_hour'])}/h" if each["job"] else "-",
        formatting.money(each["cost_microusd"]) if each["cost_microusd"] is not None else "-",
    )


def _leftover_table(leftovers: list[dict[str, Any]]) -> list[str]:
    rows = [(each["kind"], each["id"], each["backend"], each["name"] or "-") for each in leftovers]
    return output.table(("LEFTOVER", "ID", "BACKEND", "OF"), rows)


@click.command(name="ssh", context_settings={"ignore_unknown_options": True})
@click.argument("job", default="last")
@click.argument("command_there", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND]...")
@json_option
@context_option
def ssh_command(job: str, command_there: tuple[str, ...], as_json: bool, context_name: str) -> None:
    """A shell on the machine JOB runs on, or one COMMAND there; --json only tells how to log in.

    A held machine bills until it is released.
    """
    open_shell(connect(context_name), job, command_there, as_json=as_json)


@click.command(name="sweep")
@json_option
@context_option
def sweep_command(as_json: bool, context_name: str) -> None:
    """End machines that no job owns and what machines left behind, now. The server does so every minute by itself."""
    found = connect(context_name).sweep()
    if as_json:
        emit_json(found)
        return
    lines = [f"ending {each['name']} at {each['backend']}" for each in found["machines"]]
    lines += [f"removing {each['kind']} {each['id']} at {each['backend']}" for each in found["leftovers"]]
    emit(lines or ["nothing is left anywhere"])
    emit(f"{what}: {why}" for what, why in found["troubles"].items())
