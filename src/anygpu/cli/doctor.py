"""`anygpu doctor`: is this machine, and the server, as they should be? Each line says what to do if not."""

import click

from anygpu.cli import exits, paint
from anygpu.cli.checkup import FAIL, Finding, everything
from anygpu.cli.connection import context_option, json_option
from anygpu.cli.output import emit, emit_json


@click.command(name="doctor")
@json_option
@context_option
@click.pass_context
def command(context: click.Context, /, as_json: bool, context_name: str) -> None:
    """Check this machine and the server; every line says ok, warn or fail, and what to do."""
    findings = list(everything(context_name))
    if as_json:
        emit_json({"findings": [finding._asdict() for finding in findings]})
    else:
        emit(line(finding, colour=paint.wanted()) for finding in findings)
    context.exit(exits.FAILED if any(finding.state == FAIL for finding in findings) else exits.OK)


def line(finding: Finding, *, colour: bool) -> str:
    state = paint.status(f"{finding.state:<4}", on=colour)
    advice = f"\n      {finding.advice}" if finding.advice else ""
    return f"{state}  {finding.what:<9} {finding.said}{advice}"
