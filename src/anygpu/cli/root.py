"""The `anygpu` command: its table of subcommands, which are imported when used, and the entry point."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

import click

from anygpu.cli.exits import report_error
from anygpu.suggest import suggestion


class SuggestingGroup(click.Group):
    """A group of commands that suggests the closest name for a misspelt one."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        names = self.list_commands(ctx)
        if args[0] in names or args[0].startswith("-"):
            return super().resolve_command(ctx, args)
        raise click.UsageError(no_such("command", args[0], names), ctx)


def no_such(noun: str, word: str, names: Sequence[str]) -> str:
    """Return a message such as "There is no command 'rum'. Did you mean 'run'?".

    If no name is similar, the message lists all names.
    """
    listed = f"Available: {', '.join(names)}." if names else ""
    return f"There is no {noun} {word!r}. {suggestion(word, names, listed)}".rstrip()


class CommandInfo(NamedTuple):
    """The name of a command, its module under `anygpu.cli`, and its line in the help.

    The module defines the command as `<name>_command`.
    """

    name: str
    module: str
    summary: str


SECTIONS = {
    "Jobs": (
        CommandInfo("run", "jobs.run", "run a script, a command or a job file, and follow its output"),
        CommandInfo("plan", "jobs.plan", "compare machines, times and costs for a job, without starting it"),
        CommandInfo(
            "explain", "jobs.explain", "show why a job ran where it did, and how good the prediction was"
        ),
        CommandInfo(
            "simulate", "admin.simulate", "replay a job with a deadline on recorded spot availability"
        ),
        CommandInfo("ls", "jobs.jobs", "list jobs"),
        CommandInfo("show", "jobs.jobs", "show the details of a job"),
        CommandInfo("logs", "jobs.logs", "print a job's output"),
        CommandInfo("watch", "jobs.watch", "show a job's charts, progress and telemetry live"),
        CommandInfo("start", "jobs.jobs", "start waiting jobs before others"),
        CommandInfo("edit", "jobs.edit", "change the name, tags or notes of a job"),
        CommandInfo("cancel", "jobs.jobs", "cancel jobs"),
        CommandInfo("rm", "jobs.jobs", "delete jobs that have ended"),
        CommandInfo("resume", "jobs.jobs", "start a new job from an ended job's newest checkpoint"),
        CommandInfo("fetch", "jobs.outputs", "download a job's output files, checkpoint or model"),
        CommandInfo("events", "jobs.outputs", "list what happened to a job"),
        CommandInfo("queue", "jobs.jobs", "list waiting jobs and what they wait for"),
        CommandInfo(
            "costs", "jobs.costs", "show what the project has spent, by day, person, backend, GPU or tag"
        ),
        CommandInfo("accuracy", "jobs.explain", "compare predicted times and costs with actual ones"),
        CommandInfo("migrate", "jobs.jobs", "move a running job to another backend"),
        CommandInfo("ssh", "admin.machine", "open a shell on a job's machine"),
        CommandInfo("trainer", "admin.trainer", "list the built-in trainers, their settings and scripts"),
    ),
    "Data": (CommandInfo("dataset", "admin.dataset", "check, count, split and convert a dataset"),),
    "Machines": (
        CommandInfo("backend", "admin.backend", "configure cloud accounts, clusters and other backends"),
        CommandInfo("host", "admin.host", "use your own machines over SSH"),
        CommandInfo("worker", "admin.worker", "run a Celery worker that starts jobs on a GPU"),
        CommandInfo("workers", "admin.worker", "start, stop, list and scale workers in the background"),
        CommandInfo("catalog", "admin.catalog", "show and update GPU prices"),
        CommandInfo("machine", "admin.machine", "list and end rented machines"),
        CommandInfo("sweep", "admin.machine", "end machines and resources that no job owns"),
        CommandInfo("cloud-sim", "admin.cloud_sim", "run a simulated cloud on this computer"),
    ),
    "Server": (
        CommandInfo("up", "admin.server", "run the server on this computer"),
        CommandInfo("down", "admin.server", "stop the server on this computer"),
        CommandInfo("open", "admin.server", "open the web app, or the page of a job, in a browser"),
        CommandInfo("login", "admin.access", "log in to another server"),
        CommandInfo("context", "admin.access", "switch between servers"),
        CommandInfo("token", "admin.access", "create and revoke API tokens"),
        CommandInfo("secret", "admin.access", "store values that jobs need, such as API keys"),
        CommandInfo("gc", "admin.server", "delete old logs, metrics and files"),
        CommandInfo("server", "admin.move", "move the server's database to PostgreSQL"),
    ),
    "Help": (
        CommandInfo("config", "admin.config", "show settings and where each comes from"),
        CommandInfo("doctor", "admin.doctor", "check this computer and the server"),
        CommandInfo("demo", "demo", "one-minute demo: lose a spot machine, resume elsewhere"),
        CommandInfo("version", "admin.config", "show the versions of client and server"),
    ),
}
COMMANDS = {command.name: command for commands in SECTIONS.values() for command in commands}


def load_command(name: str) -> click.Command | None:
    """Import a command's module and return the command; None if there is no such command."""
    info = COMMANDS.get(name)
    if info is None:
        return None
    module = import_module(f"anygpu.cli.{info.module}")
    command: click.Command = getattr(module, f"{name.replace('-', '_')}_command")
    return command


CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "auto_envvar_prefix": None}


class RootGroup(SuggestingGroup):
    """The group of all commands. A command's module is imported when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return load_command(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(each.name, each.summary) for each in commands])


@click.group(cls=RootGroup, context_settings=CONTEXT, invoke_without_command=True, no_args_is_help=False)
@click.option("--version", "wants_version", is_flag=True, help="Print the version.")
@click.pass_context
def anygpu(context: click.Context, wants_version: bool) -> None:
    """Train machine learning models on any GPU: your own machines, clusters or any cloud.

    \b
      anygpu run train.py --epochs 3     run a script on this computer and follow its output
      anygpu watch                       show the newest job's charts live
      anygpu demo                        one-minute demo
    """
    if wants_version:
        from anygpu import __version__

        click.echo(f"anygpu {__version__}")
    elif context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> None:
    """Run the command line.

    An error prints one message and exits with a documented code, without a traceback.
    """
    try:
        code = _invoke(sys.argv[1:])
        sys.stdout.flush()
    except BaseException as error:
        if os.environ.get("ANYGPU_DEBUG") and not isinstance(error, click.exceptions.Exit | SystemExit):
            raise
        code = report_error(error)
    sys.exit(code if isinstance(code, int) else 0)


def _invoke(args: list[str]) -> object:
    if "_ANYGPU_COMPLETE" in os.environ:
        return anygpu.main(prog_name="anygpu")
    # Not `anygpu.main()`, which turns a closed pipe into exit code 1.
    with anygpu.make_context("anygpu", args) as context:
        return anygpu.invoke(context)
