"""Run a Celery worker that starts agents: one process, one attempt at a time.

The task waits in a thread while the agent, a process of its own, runs. The main thread still answers ping, inspect
and revoke, so that Flower sees the worker and the task while a job trains.
"""

import logging
import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from celery import Celery, signals
from celery.concurrency.thread import ApplyResult, TaskPool
from celery.exceptions import Reject, SecurityWarning
from pydantic import ValidationError

from anygpu.agent.host.slots import try_lock
from anygpu.backends.celery.app import make_app
from anygpu.backends.celery.broker import BrokerAddress
from anygpu.backends.celery.messages import START_TASK, BrokerKeys, StartMessage
from anygpu.backends.celery.worker.attempts import WorkerAttempts
from anygpu.backends.celery.worker.machine import WorkerGpu
from anygpu.backends.celery.worker.reporter import WorkerReporter
from anygpu.backends.celery.worker.transport import use_validating_transport
from anygpu.errors import Conflict

LOG = logging.getLogger("anygpu.worker")
LOCK_FILE = "worker.lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerConfig:
    """What a worker needs to know: its broker, queue, name and GPUs, and the directory for its files."""

    address: BrokerAddress
    queue: str
    name: str
    directory: Path
    gpus: tuple[WorkerGpu, ...] = ()
    drain_s: float | None = (
        None  # after SIGTERM, agents are stopped after this time; None: wait for their end
    )


def run_worker(config: WorkerConfig) -> int:
    """Run the worker until it is told to stop. Return its exit code."""
    _set_up_log()
    config.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    keys = BrokerKeys(config.queue)
    with _own_directory(config):
        attempts = WorkerAttempts(
            config.name, config.directory / "attempts", [gpu.uuid for gpu in config.gpus]
        )
        reporter = WorkerReporter(
            config.name,
            config.directory,
            config.address,
            keys,
            attempts,
            list(config.gpus),
            drain_s=config.drain_s,
            log=LOG.warning,
            on_conflict=lambda: os.kill(os.getpid(), signal.SIGTERM),
        )
        reporter.start()
        try:
            code = _run_celery(config, keys, attempts, reporter)
        finally:
            reporter.close()
        if reporter.conflict is not None:
            raise reporter.conflict
        return code


def _run_celery(
    config: WorkerConfig, keys: BrokerKeys, attempts: WorkerAttempts, reporter: WorkerReporter
) -> int:
    use_validating_transport()
    queues = (config.queue, keys.worker_queue(config.name))
    app = make_app(config.address, *queues)
    _register_task(app, attempts)

    def handle_shutdown(**_: Any) -> None:
        reporter.drain()

    signals.worker_shutting_down.connect(handle_shutdown, weak=False)
    pool = type("AgentPool", (AgentPool,), {"stop_agents": staticmethod(attempts.stop_agents)})
    worker = app.Worker(
        hostname=config.name,
        pool=pool,
        concurrency=1,
        queues=list(queues),
        loglevel="INFO",
        task_events=True,
        without_gossip=True,
        without_mingle=True,
        quiet=True,
    )
    worker.start()
    return int(worker.exitcode or 0)


def _register_task(app: Celery, attempts: WorkerAttempts) -> None:
    def start_attempt(message: Any = None) -> str:
        try:
            valid = StartMessage.model_validate(message)
        except ValidationError as error:
            problems = _describe_problems(error)
            LOG.warning("A message was refused, because it is not a valid order: %s", problems)
            attempts.refuse(message, problems)
            raise Reject("the message is not a valid order to start an attempt", requeue=False) from None
        detail = attempts.run(valid)
        LOG.info("%s: %s", valid.name, detail)
        return detail

    app.task(start_attempt, name=START_TASK, ignore_result=True, acks_late=False)


class AgentPool(TaskPool):  # type: ignore[misc]
    """A pool of one thread. Terminating its task asks the agent to save a checkpoint and to stop."""

    stop_agents: Callable[[], None]

    def terminate_job(self, pid: int, signal: Any = None) -> None:
        type(self).stop_agents()

    def on_apply(self, *args: Any, **kwargs: Any) -> ApplyResult:
        result = super().on_apply(*args, **kwargs)
        result.terminate = lambda *_: None
        return result


@contextmanager
def _own_directory(config: WorkerConfig) -> Iterator[None]:
    """Lock the worker's directory while it runs."""
    fd = try_lock(str(config.directory / LOCK_FILE))
    if fd is None:
        raise Conflict(
            f"The worker {config.name} already runs on this machine, with the directory {config.directory}.",
            hint="`anygpu workers status` shows it. To run a second worker, choose its name with --name.",
        )
    try:
        os.set_inheritable(fd, False)
        yield
    finally:
        os.close(fd)


def _set_up_log() -> None:
    # Celery warns about root because of pickle, which is not accepted here.
    warnings.filterwarnings("ignore", category=SecurityWarning)
    logging.basicConfig(
        stream=sys.stderr, level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )


def _describe_problems(error: ValidationError) -> str:
    problems = [
        f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors(include_url=False)
    ]
    return "; ".join(problems)[:500]
