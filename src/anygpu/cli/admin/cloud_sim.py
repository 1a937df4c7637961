"""`anygpu cloud-sim`: run a simulated cloud on this computer until Ctrl-C."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anygpu.cli.connection import json_option
from anygpu.cli.exits import print_message
from anygpu.cli.terminal.output import emit_json_line

if TYPE_CHECKING:
    from anygpu.cloudsim import CloudSim, SimOptions


def _parse_seconds(context: click.Context, parameter: click.Parameter, value: str) -> float:
    """Parse a duration such as `2s`, `1m30s`, `0` or a plain number of seconds."""
    from anygpu.spec.units import seconds

    try:
        return 0.0 if value in ("0", "0s") else seconds(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r} {error}", context, parameter) from error


@click.command(name="cloud-sim")
@click.option("--port", default=0, help="Port of the cloud APIs; 0 chooses a free one.")
@click.option("--ssh-port", default=2222, show_default=True, help="SSH port of the machines.")
@click.option(
    "--boot",
    "boot_s",
    callback=_parse_seconds,
    default="2s",
    show_default=True,
    help="Boot time of a machine.",
)
@click.option(
    "--notice",
    "notice_s",
    callback=_parse_seconds,
    default="120s",
    show_default=True,
    help="Time from the preemption notice to the end of a spot machine.",
)
@click.option("--seed", type=int, help="Preempt spot machines and change prices at random, with this seed.")
@click.option(
    "--trace",
    "traces",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Preempt spot machines as recorded in this file. Repeatable.",
)
@click.option(
    "--speed",
    default=1.0,
    show_default=True,
    help="Speed of the events of --trace and --seed compared with real time.",
)
@click.option("--sshd", default="", help="Path of an OpenSSH sshd to use instead of the built-in SSH server.")
@json_option
def cloud_sim_command(as_json: bool, **given: Any) -> None:
    """Run a simulated cloud on this computer until Ctrl-C: the APIs of EC2, Lambda and others.

    Rented machines are real processes with SSH. Faults can be injected.
    """
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
        raise ValueError("--speed is not above zero. Give a number such as 60, for sixty times as fast.")
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
        print_message("Ending all machines.")


def _print_endpoints(sim: "CloudSim", as_json: bool) -> None:
    lines = {name: _backend_add_line(sim, name) for name in sim.apis}
    if as_json:
        emit_json_line({**_endpoints(sim), "backends": lines})
        return
    print(f"Simulated cloud at {sim.url()}. Control API: {sim.url('sim')}/v1")
    print(f"The machines accept SSH on 127.77.x.y, port {sim.options.ssh_port}.\n")
    print("To use it, add it as a backend:")
    for line in lines.values():
        print(line)
    print("\nPress Ctrl-C to stop it and all its machines.", flush=True)


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
    """Return the `anygpu backend add` command for one of the simulated clouds."""
    key_id, secret = next(iter(sim.apis[name].VENDOR.credentials.items()))
    places = f"--set endpoint={sim.url(name)} --set ssh_port={sim.options.ssh_port}"
    start = f"anygpu backend add sim-{name} --kind {name} {places}"
    if secret:
        return f"echo {secret} | {start} --set access_key_id={key_id} --credential secret_access_key=-"
    return f"echo {key_id} | {start} --credential api_key=-"
