"""`anygpu worker` and `anygpu workers`: run Celery workers that start jobs on the GPUs of this machine."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from anygpu.cli.connection import json_option
from anygpu.cli.exits import print_message
from anygpu.cli.root import SuggestingGroup
from anygpu.cli.terminal.output import emit, emit_json, emit_json_line, table

if TYPE_CHECKING:
    from anygpu.backends.celery.broker import BrokerAddress
    from anygpu.backends.celery.worker.background import BackgroundWorkers, WorkerPlan, WorkerStatus
    from anygpu.backends.celery.worker.machine import WorkerGpu

F = TypeVar("F", bound=Callable[..., Any])
RESTART_DELAY_S = 5.0
POLL_S = 0.2
BROKER_VARIABLE = "CELERY_BROKER_URL"


def worker_options(function: F) -> F:
    """Add the options that name the broker and the queue of workers."""
    options = (
        click.option(
            "--broker",
            envvar=BROKER_VARIABLE,
            help="URL of the Redis or Valkey broker: redis://host:6379/0, or rediss:// for TLS. Default: the variable "
            "CELERY_BROKER_URL, which other users of the machine cannot see.",
        ),
        click.option(
            "--password-file",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="File with the password of the broker, instead of a password in the URL.",
        ),
        click.option(
            "--ca-file", default="", help="File with the CA certificate of the broker, with rediss://."
        ),
        click.option(
            "--queue", default="gpu-training", show_default=True, help="Queue that the workers listen on."
        ),
        click.option(
            "--drain",
            "drain_s",
            callback=lambda context, parameter, value: _parse_drain(context, parameter, value),
            help="After a stop request, let a running job continue for this time (such as 10m) before it saves a "
            "checkpoint and stops. Default: until it has ended.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def _parse_drain(context: click.Context, parameter: click.Parameter, value: str | None) -> float | None:
    from anygpu.spec.units import seconds

    if value is None:
        return None
    try:
        return 0.0 if value in ("0", "0s") else float(seconds(value))
    except ValueError as error:
        raise click.BadParameter(f"{value!r} {error}", context, parameter) from error


@click.command(name="worker")
@worker_options
@click.option(
    "--name", default="", help="Name of the worker, such as gpu0@lab1. Default: from GPU and host name."
)
@click.option(
    "--gpu", "gpus", multiple=True, help="GPU to use: its number or UUID. Repeatable. Default: the only one."
)
@click.option("--all-gpus", is_flag=True, help="Run one worker process for each GPU.")
@click.option("--cpu", is_flag=True, help="Run a worker without a GPU.")
@click.option(
    "--directory",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory for the worker's files. Default: workers/ in the state directory.",
)
@json_option
@click.pass_context
def worker_command(
    context: click.Context,
    /,
    broker: str | None,
    password_file: Path | None,
    ca_file: str,
    queue: str,
    drain_s: float | None,
    name: str,
    gpus: tuple[str, ...],
    all_gpus: bool,
    cpu: bool,
    directory: Path | None,
    as_json: bool,
) -> None:
    """Run a Celery worker that starts jobs on a GPU of this machine, until Ctrl-C or SIGTERM.

    A worker runs one job at a time. When it is told to stop, it accepts no new job, and ends after the current one.
    """
    if (bool(gpus) + all_gpus + cpu) > 1:
        raise click.UsageError("Give only one of --gpu, --all-gpus and --cpu.")
    if all_gpus and name:
        raise click.UsageError("--name cannot be used with --all-gpus, because each worker has its own name.")
    _require_extra()
    address = _parse_broker(broker, password_file, ca_file)
    queue = _check_queue(queue)
    if all_gpus:
        context.exit(_run_all(address, queue, drain_s, directory, as_json))
    from anygpu.backends.celery.worker.machine import host_name
    from anygpu.backends.celery.worker.service import WorkerConfig, run_worker

    chosen = _choose_gpus(gpus, cpu)
    slot = f"gpu{'-'.join(str(gpu.number) for gpu in chosen)}" if chosen else "cpu0"
    full_name = _check_name(name or f"{slot}@{host_name()}")
    place = directory or _workers_directory() / full_name.partition("@")[0]
    config = WorkerConfig(
        address=address,
        queue=queue,
        name=full_name,
        directory=place.absolute(),
        gpus=tuple(chosen),
        drain_s=drain_s,
    )
    if as_json:
        emit_json_line(
            {"name": full_name, "queue": queue, "broker": address.display, "directory": str(place)}
        )
    context.exit(run_worker(config))


@click.group(name="workers", cls=SuggestingGroup)
def workers_command() -> None:
    """Run Celery workers in the background on this machine: one per GPU."""


@workers_command.command(name="start")
@worker_options
@click.option("--count", type=click.IntRange(1, 1024), help="Number of workers. Default: one per GPU.")
@click.option("--cpu", is_flag=True, help="Start workers without GPUs.")
@click.option("--host", default="", help="Name of this machine in the names of the workers.")
@json_option
def start_workers(
    broker: str | None,
    password_file: Path | None,
    ca_file: str,
    queue: str,
    drain_s: float | None,
    count: int | None,
    cpu: bool,
    host: str,
    as_json: bool,
) -> None:
    """Start workers in the background: one for each GPU that has none yet."""
    _require_extra()
    from anygpu.backends.celery.worker.background import WorkerPlan
    from anygpu.backends.celery.worker.machine import find_gpus, host_name

    plan = WorkerPlan(
        broker=_parse_broker(broker, password_file, ca_file),
        queue=_check_queue(queue),
        host=host or host_name(),
        drain_s=drain_s,
        cpu=cpu or not find_gpus()[0],
    )
    _check_name(f"worker@{plan.host}")
    slots = _slots(plan)
    _require_slots(count or 0, slots)
    workers = _background()
    workers.save_plan(plan)
    wanted = count if count is not None else (1 if plan.cpu else len(slots))
    _start_missing(workers, plan, wanted)
    _print_statuses(workers.statuses(), as_json)


@workers_command.command(name="stop")
@click.argument("names", nargs=-1)
@click.option(
    "--now", is_flag=True, help="Running jobs save a checkpoint and stop now; they continue elsewhere."
)
@click.option("--no-wait", is_flag=True, help="Do not wait until the workers have ended.")
@json_option
def stop_workers(names: tuple[str, ...], now: bool, no_wait: bool, as_json: bool) -> None:
    """Stop the workers of this machine, or those with the given NAMES.

    They accept no new jobs, and end when their current job has ended.
    """
    workers = _background()
    chosen = _named(workers.statuses(), names)
    workers.stop(chosen, now=now)
    busy = [each.name for each in chosen if each.is_busy and not now]
    if busy and not no_wait:
        print_message(f"Waiting for the jobs of {', '.join(busy)}. Ctrl-C stops waiting, not the jobs.")
    if not no_wait:
        workers.wait_stopped(chosen, now=now)
    if as_json:
        emit_json({"stopped": [each.name for each in chosen]})
    else:
        done = "Asked to stop:" if no_wait else "Stopped"
        emit([f"{done} {each.name}." for each in chosen] or ["No worker runs on this machine."])


@workers_command.command(name="status")
@json_option
def show_workers(as_json: bool) -> None:
    """List the background workers of this machine, their GPUs and what they run."""
    _print_statuses(_background().statuses(), as_json)


@workers_command.command(name="scale")
@click.argument("count", type=click.IntRange(0, 1024))
@click.option("--now", is_flag=True, help="Jobs of workers that are stopped save a checkpoint and stop now.")
@json_option
def scale_workers(count: int, now: bool, as_json: bool) -> None:
    """Run COUNT workers on this machine: start more, or stop some. Idle workers are stopped first."""
    _require_extra()
    workers = _background()
    plan = workers.load_plan()
    if plan is None:
        raise click.UsageError(
            "No workers were started on this machine yet. Use `anygpu workers start` first"
        )
    _require_slots(count, _slots(plan))
    running = workers.running()
    if count < len(running):
        surplus = _surplus(running, len(running) - count)
        workers.stop(surplus, now=now)
        workers.wait_stopped([each for each in surplus if now or not each.is_busy], now=now)
        busy = [each.name for each in surplus if each.is_busy and not now]
        if busy:
            print_message(
                f"Stopping {', '.join(busy)}: no new jobs start there, and running jobs are not interrupted."
            )
    else:
        _start_missing(workers, plan, count)
    _print_statuses(workers.statuses(), as_json)


# -- one process per GPU --------------------------------------------------------------------------------------


def _run_all(
    address: "BrokerAddress", queue: str, drain_s: float | None, directory: Path | None, as_json: bool
) -> int:
    """Run one worker process for each GPU until SIGTERM or Ctrl-C. A process that dies is started again.

    The first signal lets running jobs end; the second one stops them.
    """
    gpus = _choose_gpus((), False, every=True)
    root = directory or _workers_directory()
    shown = ["--json"] if as_json else []
    commands = [
        [*_worker_command(gpu, address, queue, drain_s, root / f"gpu{gpu.number}"), *shown] for gpu in gpus
    ]
    environment = {**os.environ, BROKER_VARIABLE: address.url}
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: stopping.append(received))
    children = [_start_child(command, gpu, environment) for command, gpu in zip(commands, gpus, strict=True)]
    retry_at = [0.0] * len(children)
    while not stopping:
        for index, child in enumerate(children):
            if child.poll() is None:
                retry_at[index] = time.monotonic() + RESTART_DELAY_S
            elif time.monotonic() > retry_at[index]:
                print_message(
                    f"The worker of GPU {gpus[index].number} ended with code {child.returncode}; restarting it."
                )
                children[index] = _start_child(commands[index], gpus[index], environment)
        time.sleep(POLL_S)
    for child in children:
        child.terminate()
    return _wait_ended(children, stopping)


def _wait_ended(children: "list[subprocess.Popen[bytes]]", received: list[int]) -> int:
    """Wait until the workers, which were told to stop, have ended, and return the highest exit code.

    On each signal after the first in `received`, they are told to stop their jobs too.
    """
    print_message(
        "Waiting for the workers and their jobs. After another Ctrl-C, the jobs save a checkpoint and stop."
    )
    handled = 1
    while any(child.poll() is None for child in children):
        if len(received) > handled:
            handled = len(received)
            print_message("Stopping the jobs; they save a checkpoint and continue on another worker.")
            for child in children:
                child.send_signal(signal.SIGQUIT)  # the cold shutdown of Celery
        time.sleep(POLL_S)
    return max((child.wait() for child in children), default=0)


def _worker_command(
    gpu: "WorkerGpu", address: "BrokerAddress", queue: str, drain_s: float | None, directory: Path
) -> list[str]:
    from anygpu.backends.celery.worker.background import drain_words

    command = [sys.executable, "-m", "anygpu", "worker", "--gpu", gpu.uuid, "--queue", queue]
    command += drain_words(drain_s)
    command += ["--ca-file", address.ca_file] if address.ca_file else []
    return [*command, "--directory", str(directory)]


def _start_child(
    command: list[str], gpu: "WorkerGpu", environment: dict[str, str]
) -> "subprocess.Popen[bytes]":
    # In its own process group: Ctrl-C in the terminal reaches only this process, which passes it on as SIGTERM.
    return subprocess.Popen(command, env={**environment, "CUDA_VISIBLE_DEVICES": gpu.uuid}, process_group=0)


# -- options --------------------------------------------------------------------------------------------------


def _require_extra() -> None:
    from anygpu.backends.registry import find_kind, require_modules

    require_modules(find_kind("celery"))


def _parse_broker(url: str | None, password_file: Path | None, ca_file: str) -> "BrokerAddress":
    from anygpu.backends.celery.broker import parse_broker

    if not url:
        raise click.UsageError(
            "No broker is given. Set CELERY_BROKER_URL, or use --broker redis://host:6379/0"
        )
    password = _read_password(password_file) if password_file is not None else ""
    try:
        address = parse_broker(url, password=password, ca_file=ca_file)
    except ValueError as error:
        raise click.UsageError(f"The broker URL cannot be used: {error}") from error
    if ca_file and not Path(ca_file).is_file():
        raise click.UsageError(f"The file {ca_file} of --ca-file does not exist")
    return address


def _read_password(file: Path) -> str:
    try:
        return file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"The file {file} of --password-file cannot be read as text") from error


def _check_queue(queue: str) -> str:
    from pydantic import TypeAdapter

    from anygpu.backends.celery.messages import QueueName

    try:
        return TypeAdapter(QueueName).validate_python(queue)
    except ValueError:
        raise click.UsageError(
            f"--queue {queue[:100]!r} is not a valid name: use letters, digits, '.', '_' and '-', at most 100"
        ) from None


def _check_name(name: str) -> str:
    from anygpu.backends.celery.messages import WORKER_NAME

    if not WORKER_NAME.fullmatch(name):
        raise click.UsageError(
            f"{name[:100]!r} is not a valid name of a worker: write name@host, with letters, digits, '.', '_' and '-'"
        )
    return name


def _choose_gpus(words: Sequence[str], cpu: bool, *, every: bool = False) -> "list[WorkerGpu]":
    from anygpu.backends.celery.worker.machine import find_gpus, matches

    gpus, problem = ([], "") if cpu else find_gpus()
    listed = (
        ", ".join(f"{gpu.number} ({gpu.kind})" for gpu in gpus)
        or f"none ({problem or 'nvidia-smi lists none'})"
    )
    if every and not gpus:
        raise click.UsageError(f"This machine has no GPU: {problem or 'nvidia-smi lists none'}. Use --cpu")
    if not words and not every and len(gpus) > 1:
        raise click.UsageError(
            f"This machine has several GPUs: {listed}. Use --all-gpus, or choose with --gpu"
        )
    chosen = [gpu for gpu in gpus if not words or any(matches(gpu, word) for word in words)]
    for word in words:
        if not any(matches(gpu, word) for gpu in gpus):
            raise click.UsageError(f"There is no GPU {word[:100]!r} on this machine. GPUs: {listed}")
    if not every and len({gpu.kind for gpu in chosen}) > 1:
        raise click.UsageError(
            "The GPUs of one worker must be of the same model. Run one worker for each model"
        )
    return chosen


# -- background -----------------------------------------------------------------------------------------------


def _workers_directory() -> Path:
    from anygpu.sdk.embedded import state_dir

    return state_dir() / "workers"


def _background() -> "BackgroundWorkers":
    from anygpu.backends.celery.worker.background import BackgroundWorkers

    return BackgroundWorkers(_workers_directory())


def _slots(plan: "WorkerPlan") -> dict[str, str]:
    """Return the workers that this machine can have: name without the host -> UUID of the GPU, or empty."""
    from anygpu.backends.celery.worker.machine import find_gpus

    if plan.cpu:
        return {f"cpu{number}": "" for number in range(os.cpu_count() or 1)}
    return {f"gpu{gpu.number}": gpu.uuid for gpu in find_gpus()[0]}


def _require_slots(count: int, slots: dict[str, str]) -> None:
    if count > len(slots):
        what = "GPUs" if any(slots.values()) else "CPUs"
        raise click.UsageError(
            f"This machine has {len(slots)} {what}, so it can have at most {len(slots)} workers, not {count}"
        )


def _start_missing(workers: "BackgroundWorkers", plan: "WorkerPlan", wanted: int) -> None:
    """Start workers until `wanted` run. One in the foreground (`anygpu worker`) counts too, because it has the slot."""
    slots = _slots(plan)
    used = {status.directory.name for status in workers.running()}
    used |= {slot for slot in slots if workers.is_in_use(slot)}
    free = [slot for slot in slots if slot not in used]
    for slot in free[: max(0, wanted - len(used))]:
        workers.start(plan, slot, slots[slot])


def _surplus(running: "Sequence[WorkerStatus]", count: int) -> "list[WorkerStatus]":
    """Return which workers to stop: idle ones first, then those with the highest numbers."""
    last_first = running[::-1]
    return sorted(last_first, key=lambda status: status.is_busy)[:count]


def _named(statuses: "Sequence[WorkerStatus]", names: Sequence[str]) -> "list[WorkerStatus]":
    running = [status for status in statuses if status.is_running]
    for name in names:
        if not any(name in (status.name, status.directory.name) for status in running):
            listed = ", ".join(status.name for status in running) or "none"
            raise click.UsageError(
                f"There is no running worker {name[:100]!r} on this machine. Running: {listed}"
            )
    return [
        status
        for status in running
        if not names or any(name in (status.name, status.directory.name) for name in names)
    ]


def _print_statuses(statuses: "Sequence[WorkerStatus]", as_json: bool) -> None:
    if as_json:
        emit_json({"workers": [_status_json(status) for status in statuses]})
        return
    if not statuses:
        emit(["No worker runs on this machine. Start workers with `anygpu workers start --broker URL`."])
        return
    rows = [
        [
            status.name,
            _state(status),
            _gpu_text(status),
            str(status.pid or ""),
            status.queue,
            status.problem or (status.report.attempts[0].name if status.report and status.is_busy else ""),
        ]
        for status in statuses
    ]
    emit(table(["WORKER", "STATE", "GPU", "PID", "QUEUE", "NOTE"], rows))


def _state(status: "WorkerStatus") -> str:
    if not status.is_running:
        return "ended"
    if status.report is not None and status.report.draining:
        return "stopping"
    if status.is_busy:
        return "busy"
    return "disconnected" if status.problem else "idle"


def _gpu_text(status: "WorkerStatus") -> str:
    return ", ".join(gpu.kind for gpu in status.report.gpus) or "no GPU" if status.report else ""


def _status_json(status: "WorkerStatus") -> dict[str, Any]:
    return {
        "name": status.name,
        "state": _state(status),
        "pid": status.pid,
        "broker": status.broker,
        "queue": status.queue,
        "problem": status.problem,
        "log": str(status.directory / "worker.log"),
        "gpus": [gpu.model_dump() for gpu in status.report.gpus] if status.report else [],
        "attempts": [each.name for each in status.report.attempts] if status.report else [],
    }
