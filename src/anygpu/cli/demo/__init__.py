"""`anygpu demo`: a minute's tour. Trains on a spot machine, loses it, goes on with another provider."""

import os
import sys
import tempfile
from pathlib import Path

import click

from anygpu.cli import exits
from anygpu.cli.connection import json_option
from anygpu.cli.terminal.output import emit_json
from anygpu.errors import AnygpuError


class DemoNeedsData(AnygpuError):
    """The demo trains on scikit-learn's digits. Install it with `pip install 'anygpu[demo]'`."""

    code = "demo_needs_data"


@click.command(name="demo")
@click.option("--epochs", default=150, show_default=True, type=click.IntRange(60), help="How long to train.")
@json_option
@click.pass_context
def demo_command(context: click.Context, /, epochs: int, as_json: bool) -> None:
    """A minute's tour: a simulated cloud, a spot machine that is taken back, a resume elsewhere; nothing is left."""
    from importlib.util import find_spec

    if find_spec("sklearn") is None:
        raise DemoNeedsData
    from anygpu.cli.demo.run import DemoRun

    with tempfile.TemporaryDirectory(prefix="anygpu-demo-") as directory:
        _isolate_environment(Path(directory))
        report = DemoRun(Path(directory), epochs, quiet=as_json).run()
    if as_json:
        emit_json(report.document())
    else:
        sys.stdout.write(report.text())
    context.exit(exits.FAILED if report.failed_checks() else exits.OK)


def _isolate_environment(directory: Path) -> None:
    """This process, and the server it starts, look at no settings and no server but the demo's own."""
    for name in [name for name in os.environ if name.startswith("ANYGPU_") and name != "ANYGPU_DEBUG"]:
        del os.environ[name]
    os.environ["ANYGPU_STATE"] = str(directory / "state")
    os.environ["ANYGPU_CONFIG"] = str(directory / "config.toml")
