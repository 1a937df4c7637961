"""The `anygpu` command: the table of commands, each imported when it is used, and the entry point."""

import os
import sys
from importlib import import_module
from typing import NamedTuple

import click

from anygpu.cli.exits import report_error


class SuggestingGroup(click.Group):
    """A group that helps with a misspelt sub-command."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] in known or args[0].startswith("-"):
            return super().resolve_command(ctx, args)
        raise click.UsageError(f"There is no command {args[0]!r}.{suggestion(args[0], known)}", ctx)


def suggestion(word: str, known: list[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word, known, n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else f" There are: {', '.join(known)}."


class CommandInfo(NamedTuple):
    """A command, the module under `anygpu.cli` that defines it as `<name>_command`, and its line in the help."""

    name: str
    module: str
    summary: str


SECTIONS = {
    "Jobs": (
        CommandInfo("run", "jobs.run", "run a script, a command or a job file, and follow it"),
        CommandInfo("plan", "jobs.plan", "where a job could run, how long, for how much, and why"),
        CommandInfo(
            "explain", "jobs.explain", "why a job ran where it did, and how right the prediction was"
        ),
        CommandInfo(
            "simulate", "admin.simulate", "what a job with a deadline would have cost on recorded spot"
        ),
        CommandInfo("ls", "jobs.jobs", "list jobs"),
        CommandInfo("show", "jobs.jobs", "tell everything about a job"),
        CommandInfo("logs", "jobs.outputs", "print what a job printed"),
        CommandInfo("watch", "jobs.watch", "a job's curves, progress and telemetry, live"),
        CommandInfo("cancel", "jobs.jobs", "end a job"),
        CommandInfo("resume", "jobs.jobs", "go on from a job's newest checkpoint"),
        CommandInfo("fetch", "jobs.outputs", "download what a job made"),
        CommandInfo("events", "jobs.outputs", "what happened, as it happens"),
        CommandInfo("queue", "jobs.jobs", "what waits, for what, and where it stands"),
        CommandInfo("accuracy", "jobs.explain", "how far predicted times and costs were from the real ones"),
        CommandInfo("migrate", "jobs.jobs", "move a job to another backend"),
        CommandInfo("ssh", "admin.machine", "a shell on the machine of a job"),
        CommandInfo("trainer", "admin.trainer", "what can train without a script of yours"),
    ),
    "Data": (
        CommandInfo("dataset", "admin.dataset", "check, count, split and convert data before training"),
    ),
    "Machines": (
        CommandInfo("backend", "admin.backend", "places to rent or use machines: clouds, boxes"),
        CommandInfo("host", "admin.host", "boxes of your own, over SSH"),
        CommandInfo("catalog", "admin.catalog", "what GPUs cost where, as of when"),
        CommandInfo("machine", "admin.machine", "machines at the providers, and what they cost"),
        CommandInfo("sweep", "admin.machine", "end what nobody owns, now"),
        CommandInfo("cloud-sim", "admin.cloud_sim", "a simulated cloud on this computer, to rehearse with"),
    ),
    "Server": (
        CommandInfo("up", "admin.server", "run the server in the foreground"),
        CommandInfo("down", "admin.server", "stop the server of this machine"),
        CommandInfo("open", "admin.server", "open the server's page in a browser"),
        CommandInfo("login", "admin.access", "use a server elsewhere"),
        CommandInfo("context", "admin.access", "the servers you are logged in to"),
        CommandInfo("token", "admin.access", "tokens for programs and people"),
        CommandInfo("secret", "admin.access", "values jobs need and nobody should see"),
        CommandInfo("gc", "admin.server", "apply retention: remove what is old"),
    ),
    "Help": (
        CommandInfo("config", "admin.config", "settings and where each came from"),
        CommandInfo("doctor", "admin.doctor", "check this machine and the server"),
        CommandInfo("demo", "demo", "a minute's tour: rent, lose the machine, go on elsewhere"),
        CommandInfo("version", "admin.config", "versions of the client and of the server"),
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
    """The commands by name, none of them imported before it is asked for."""

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
    """Train on any GPU: one command runs a job, shows it live, and never loses it.

    \b
      anygpu run train.py --epochs 3     run a script here, with live output
      anygpu watch                       the newest job's curves, live
      anygpu demo                        a minute's tour
    """
    if wants_version:
        from anygpu import __version__

        click.echo(f"anygpu {__version__}")
    elif context.invoked_subcommand is None:
        click.echo(context.get_help())


def main() -> None:
    """Never a traceback: every failure is a line that says what to do, and a documented exit code."""
    try:
        code = _invoke(sys.argv[1:])
        sys.stdout.flush()
    except BaseException as error:
        if os.environ.get("ANYGPU_DEBUG") and not isinstance(error, click.exceptions.Exit | SystemExit):
            raise
        code = report_error(error)
    sys.exit(code if isinstance(code, int) else 0)


def _invoke(words: list[str]) -> object:
    if "_ANYGPU_COMPLETE" in os.environ:
        return anygpu.main(prog_name="anygpu")
    # Not `anygpu.main()`: it turns a closed pipe into exit code 1 by itself.
    with anygpu.make_context("anygpu", words) as context:
        return anygpu.invoke(context)
