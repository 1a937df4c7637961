"""`anygpu`: the command line. Each command is one file, imported when it is used."""

import os
import sys

import click

from anygpu.cli.catalogue import COMMANDS, SECTIONS, load
from anygpu.cli.exits import report
from anygpu.cli.groups import Named

CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100, "auto_envvar_prefix": None}


class Commands(Named):
    """The commands by name, none of them imported before it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [command.name for command in COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return load(cmd_name)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, names in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(each.name, each.about) for each in COMMANDS if each.name in names])


@click.group(cls=Commands, context_settings=CONTEXT, invoke_without_command=True, no_args_is_help=False)
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
        code = _invoked(sys.argv[1:])
        sys.stdout.flush()
    except BaseException as error:
        if os.environ.get("ANYGPU_DEBUG") and not isinstance(error, click.exceptions.Exit | SystemExit):
            raise
        code = report(error)
    sys.exit(code if isinstance(code, int) else 0)


def _invoked(words: list[str]) -> object:
    if "_ANYGPU_COMPLETE" in os.environ:
        return anygpu.main(prog_name="anygpu")
    # Not `anygpu.main()`: it turns a closed pipe into exit code 1 by itself.
    with anygpu.make_context("anygpu", words) as context:
        return anygpu.invoke(context)
