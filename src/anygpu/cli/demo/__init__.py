"""`anygpu demo`: train on a simulated spot machine, lose it, and resume with another provider."""

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from anygpu.cli import exits
from anygpu.cli.connection import json_option
from anygpu.cli.terminal.output import emit_json
from anygpu.errors import AnygpuError

if TYPE_CHECKING:
    from anygpu.cli.demo.report import DemoReport


class DemoNeedsData(AnygpuError):
    """The demo needs scikit-learn, which is not installed. Install the extra `demo` of anygpu."""

    code = "demo_needs_data"


@click.command(name="demo")
@click.option(
    "--epochs", default=150, show_default=True, type=click.IntRange(60), help="Number of epochs to train."
)
@json_option
@click.pass_context
def demo_command(context: click.Context, /, epochs: int, as_json: bool) -> None:
    """Run a one-minute demo: train on a simulated spot machine, lose it, and resume with another provider.

    The demo uses its own temporary server and directory, and removes them at the end. It prints a link to watch the
    job in a browser. In a terminal the server runs until a key is pressed.
    """
    from importlib.util import find_spec

    if find_spec("sklearn") is None:
        from anygpu.installation import install_hint

        raise DemoNeedsData(hint=install_hint("demo"))
    from anygpu.cli.demo.run import DemoRun

    with tempfile.TemporaryDirectory(prefix="anygpu-demo-") as directory:
        _isolate_environment(Path(directory))
        report = DemoRun(Path(directory), epochs, quiet=as_json).run(
            on_end=emit_document if as_json else show
        )
    context.exit(exits.FAILED if report.failed_checks() else exits.OK)


def emit_document(report: "DemoReport", link: str) -> None:
    emit_json(report.document())


def show(report: "DemoReport", link: str) -> None:
    """Print the report. In a terminal, keep the server and its pages until a key is pressed."""
    sys.stdout.write(report.text())
    sys.stdout.flush()
    if sys.stdin.isatty() and sys.stdout.isatty():
        from anygpu.cli.jobs.follow import read_key

        print(f"\nThe server still runs: {link} (works once)", flush=True)
        with contextlib.suppress(KeyboardInterrupt, EOFError):
            read_key("", "Press a key to stop it.")
        print(flush=True)


def _isolate_environment(directory: Path) -> None:
    """Make this process, and the server that it starts, use only the demo's own settings and state."""
    for name in [name for name in os.environ if name.startswith("ANYGPU_") and name != "ANYGPU_DEBUG"]:
        del os.environ[name]
    os.environ["ANYGPU_STATE"] = str(directory / "state")
    os.environ["ANYGPU_CONFIG"] = str(directory / "config.toml")
