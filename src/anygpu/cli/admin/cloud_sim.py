"""`anygpu cloud-sim`: run a simulated cloud on this computer until Ctrl-C."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anygpu.cli.connection import json_option
from anygpu.cli.terminal.output import emit_json_line

if TYPE_CHECKING:
    from anygpu.cloudsim import CloudSim, SimOptions


def _parse_seconds(context: click.Context, parameter: click.Parameter, value: str) -> float:
    """`2s`, `1m30s`, or plain seconds; 0 too."""
    from anygpu.spec.units import seconds

    try:
        return 0.0 if value in ("0", "0s") else seconds(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} {error}", context, parameter) from error


@click.command(name="cloud-sim")
@click.option("--port", default=0, help="Port of the providers' APIs; 0: a free one.")
@click.option("--ssh-port", default=2222, show_default=True, help="Port of every machine's SSH server.")
@click.option(
    "--boot",
    "boot_s",
    callback=_parse_seconds,
    default="2s",
    show_default=True,
    help="How long a machine boots.",
)
@click.option(
    "--notice",
    "notice_s",
    callback=_parse_seconds,
    default="120s",
    show_default=True,
    help="Notice before a machine is taken.",
)
@click.option("--seed", type=int, help="Spot machines come and go, and prices move, as this number has it.")
@click.option(
    "--trace",
    "traces",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Spot machines come and go as in this file; repeat.",
)
@click.option(
    "--speed", default=1.0, show_default=True, help="How much faster than real time traces and seeds go."
)
@click.option("--sshd", default="", help="Path of OpenSSH's sshd to use instead of the server built in.")
@json_option
def cloud_sim_command(as_json: bool, **given: Any) -> None:
    """Rent machines that really run, on this computer: EC2, Lambda and others, with faults on request."""
    import asyncio

    try:
        options = _sim_options(**given)
    except ValueError as error:
        raise click.UsageError(str(error)) from error
    asyncio.run(_serve(options, as_json))


def _sim_options(
    port: int,
    ssh_port: int,
    boot_s: float,
    notice_s: float,
    seed: int | None,
    traces: Sequence[Path],
    speed: float,
    sshd: str,
) -> "SimOptions":
    from anygpu.cloudsim import CloudTiming, SimOptions, read_trace

    if speed <= 0:
        raise ValueError("--speed must be above zero.")
    return SimOptions(
        port=port,
        ssh_port=ssh_port,
        timing=CloudTiming(boot_s=boot_s, notice_s=notice_s),
        seed=seed,
        traces=tuple(read_trace(path) for path in traces),
        speed=speed,
        sshd=sshd,
    )


async def _serve(options: "SimOptions", as_json: bool) -> None:
    import asyncio
    import signal

    from anygpu.cloudsim import CloudSim

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with CloudSim(options) as sim:
        _print_endpoints(sim, as_json)
        await stop.wait()
        print("anygpu: ending every machine", file=sys.stderr)


def _print_endpoints(sim: "CloudSim", as_json: bool) -> None:
    lines = {name: _backend_add_line(sim, name) for name in sim.apis}
    if as_json:
        emit_json_line({**_endpoints(sim), "backends": lines})
        return
    print(f"simulated cloud at {sim.url()}; its own API at {sim.url('sim')}/v1")
    print(f"machines answer SSH on port {sim.options.ssh_port} of addresses 127.77.x.y\n")
    for line in lines.values():
        print(line)
    print("\nCtrl-C ends it, and every machine with it", flush=True)


def _endpoints(sim: "CloudSim") -> dict[str, Any]:
    return {
        "control": f"{sim.url('sim')}/v1",
        "ssh_port": sim.options.ssh_port,
        "endpoints": {name: sim.url(name) for name in sim.apis},
        "credentials": {
            name: next(iter(dialect.VENDOR.credentials.items())) for name, dialect in sim.apis.items()
        },
    }


def _backend_add_line(sim: "CloudSim", name: str) -> str:
    """The line a person types to use it."""
    key_id, secret = next(iter(sim.apis[name].VENDOR.credentials.items()))
    places = f"--set endpoint={sim.url(name)} --set ssh_port={sim.options.ssh_port}"
    start = f"anygpu backend add sim-{name} --kind {name} {places}"
    if secret:
        return f"echo {secret} | {start} --set access_key_id={key_id} --credential secret_access_key=-"
    return f"echo {key_id} | {start} --credential api_key=-"
