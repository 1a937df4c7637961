"""Report a worker to the broker every 30 seconds and at every change, and carry out orders to end attempts.

In the same rhythm, the reports that dead agents left are delivered.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from anygpu.agent.prepare.containers import search_runtime
from anygpu.backends.celery.broker import BrokerAddress, describe_broker_error
from anygpu.backends.celery.messages import (
    END_ORDER_EXPIRY_S,
    REPORT_EVERY_S,
    REPORT_EXPIRY_S,
    BrokerKeys,
    WorkerReport,
    is_attempt,
    own_version,
)
from anygpu.backends.celery.worker.attempts import AttemptKey, WorkerAttempts
from anygpu.backends.celery.worker.machine import WorkerGpu, host_name, machine_facts, report_gpus
from anygpu.errors import Conflict
from anygpu.files import write_atomic

TICK_S = 1.0
RETRY_S = 1.0
# A worker that runs already reports again within this time of the moment when the broker answers again.
RETURN_S = 5.0
REPORT_FILE = "report.json"
MACHINE_FILE = "machine-id"
RUNTIME_SEARCH_EVERY_S = 600.0
CLEAN_UP_EVERY_S = 300.0


class WorkerReporter:
    """A thread that keeps the worker's report in the broker up to date. It retries if the broker fails."""

    def __init__(
        self,
        name: str,
        directory: Path,
        address: BrokerAddress,
        keys: BrokerKeys,
        attempts: WorkerAttempts,
        gpus: list[WorkerGpu],
        *,
        drain_s: float | None = None,
        log: Callable[[str], None] = lambda text: None,
        on_conflict: Callable[[], None] = lambda: None,
    ) -> None:
        self._name = name
        self._directory = directory
        self._address = address
        self._keys = keys
        self._attempts = attempts
        self._gpus = gpus
        self._drain_s = drain_s
        self._log = log
        self._on_conflict = on_conflict
        self.conflict: Conflict | None = None  # why the worker has to end: another one had its name first
        self._client = address.client()
        self._instance = os.urandom(8).hex()
        self._machine = _machine_id(directory)
        self._started_at_ms = 0
        self._containers = False
        self._lock = threading.Lock()
        self._is_due = threading.Event()
        self._closing = threading.Event()
        self._drain_until: float | None = None
        self._draining = self._stopped = False
        self._is_name_checked = False
        self._problem = ""
        self._thread = threading.Thread(target=self._run, name="anygpu-reporter", daemon=True)
        attempts.on_change = self._handle_change

    def start(self) -> None:
        """Check that no other worker has this name, and start to report. Does not wait if the broker fails."""
        with contextlib.suppress(*_broker_exceptions()):
            self._require_own_name()
            self._is_name_checked = True
        self._thread.start()

    def drain(self) -> None:
        """Accept nothing new. After the drain time, the agents are asked to save and stop."""
        self._draining = True
        if self._drain_s is not None and self._drain_until is None:
            self._drain_until = time.monotonic() + self._drain_s
        self._is_due.set()

    def close(self) -> None:
        """Stop reporting. The last report says that nothing runs here any more, unless an attempt still does."""
        self._closing.set()
        self._thread.join(timeout=15)
        self._stopped = not self._attempts.listed()
        if self._stopped:
            with contextlib.suppress(Conflict, *_broker_exceptions()):
                self._publish()
        self._client.close()

    # -- thread -----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        searched_at, cleaned_at = -RUNTIME_SEARCH_EVERY_S, -CLEAN_UP_EVERY_S
        while not self._closing.is_set():
            self._attempts.deliver_missing()
            with self._reported_errors(), self._subscription() as feed:
                self._wait_for_others()
                self._publish()
                self._carry_out_orders()
                self._log_connected()
                if time.monotonic() - searched_at >= RUNTIME_SEARCH_EVERY_S:
                    self._containers, searched_at = search_runtime()[0] is not None, time.monotonic()
                if time.monotonic() - cleaned_at >= CLEAN_UP_EVERY_S:
                    cleaned_at = time.monotonic()
                    self._attempts.remove_old()
                self._serve(feed, time.monotonic() + REPORT_EVERY_S)
            if self._problem:
                self._check_drain()
                self._closing.wait(RETRY_S)

    def _serve(self, feed: Any, until: float) -> None:
        """Wait for orders and changes until the next report is due."""
        while time.monotonic() < until and not self._closing.is_set():
            if feed.get_message(timeout=TICK_S) is not None:
                self._carry_out_orders()
            self._check_drain()
            if self._is_due.is_set() or self._attempts.has_changed():
                self._publish()
                self._attempts.deliver_missing()  # after the report, which says that the agent has died

    @contextmanager
    def _subscription(self) -> Iterator[Any]:
        feed = self._client.pubsub(ignore_subscribe_messages=True)
        try:
            feed.subscribe(self._keys.wake(self._name))
            yield feed
        finally:
            feed.close()

    @contextmanager
    def _reported_errors(self) -> Iterator[None]:
        """Log an error once. The next round tries again, whatever the error was: a worker must keep reporting."""
        try:
            yield
        except Conflict as conflict:
            self._give_up(conflict)
        except _broker_exceptions() as error:
            self._record_problem(describe_broker_error(self._address, error))
        except Exception as error:  # noqa: BLE001
            self._record_problem(f"The worker could not report: {type(error).__name__}: {error}.")

    def _record_problem(self, text: str) -> None:
        if not self._problem:
            self._log(f"{text} Running attempts continue; the worker tries again.")
        self._problem = text
        with contextlib.suppress(Exception):
            self._write_file(self._build(0))

    def _wait_for_others(self) -> None:
        """Let a worker of the same name report first, if the broker did not answer when this one started."""
        if not self._is_name_checked:
            self._closing.wait(RETURN_S)
            self._is_name_checked = True

    def _give_up(self, conflict: Conflict) -> None:
        """Let the agents save a checkpoint, and the worker end. Servers would take its attempts for lost."""
        self._problem = str(conflict)
        if self.conflict is not None:
            return
        self.conflict = conflict
        self._log(f"{conflict} This worker ends.")
        self._draining, self._drain_until = True, float("inf")
        self._attempts.stop_agents()
        self._on_conflict()

    def _log_connected(self) -> None:
        if self._problem:
            self._log(f"The broker {self._address.display} answers again.")
        self._problem = ""

    def _check_drain(self) -> None:
        if self._drain_until is not None and time.monotonic() > self._drain_until:
            self._drain_until = float("inf")
            self._log("The drain time is over: the agents save a checkpoint and stop.")
            self._attempts.stop_agents()

    # -- report -----------------------------------------------------------------------------------------------

    def _handle_change(self, key: AttemptKey) -> None:
        """Report a change of an attempt at once. If the broker does not answer, the next round reports it."""
        self._is_due.set()
        with contextlib.suppress(Conflict, *_broker_exceptions()):
            self._publish()
            self._client.publish(self._keys.changes, "/".join(key))

    def _publish(self) -> None:
        """Write the report, unless another worker had the name first, or may have had it."""
        if not self._is_name_checked:
            return
        with self._lock:
            self._is_due.clear()
            try:
                self._require_own_name()
                seconds, micros = self._client.time()
                report = self._build(seconds * 1000 + micros // 1000)
                with self._client.pipeline(transaction=True) as pipe:
                    data = report.model_dump_json()
                    # A worker that was stopped must not look like a lost one after REPORT_EXPIRY_S.
                    expiry_s = END_ORDER_EXPIRY_S if report.stopped else int(REPORT_EXPIRY_S)
                    pipe.set(self._keys.report(self._name), data, ex=expiry_s)
                    pipe.zadd(self._keys.workers, {self._name: report.at_ms})
                    pipe.zremrangebyscore(
                        self._keys.workers, "-inf", report.at_ms - END_ORDER_EXPIRY_S * 1000
                    )
                    pipe.execute()
            except BaseException:
                self._is_due.set()
                raise
            self._write_file(report)

    def _build(self, now_ms: int) -> WorkerReport:
        self._started_at_ms = self._started_at_ms or now_ms
        return WorkerReport(
            name=self._name,
            instance=self._instance,
            machine=self._machine,
            host=host_name(),
            version=own_version(),
            pid=os.getpid(),
            started_at_ms=self._started_at_ms,
            at_ms=now_ms,
            clock_ms=int(time.time() * 1000),
            gpus=report_gpus(self._gpus),
            **machine_facts(self._directory),
            containers=self._containers,
            draining=self._draining,
            stopped=self._stopped,
            attempts=tuple(self._attempts.listed()),
            ended=tuple(self._attempts.ended()),
        )

    def _write_file(self, report: WorkerReport) -> None:
        """Write the report to the worker's directory, for `anygpu workers status`."""
        content = f'{{"problem": {_json_text(self._problem)}, "report": {report.model_dump_json()}}}'
        with contextlib.suppress(OSError):
            write_atomic(self._directory / REPORT_FILE, content.encode())

    # -- orders -----------------------------------------------------------------------------------------------

    def _carry_out_orders(self) -> None:
        """End the attempts that a server has ordered to end, and remove the orders that are done."""
        key = self._keys.ends(self._name)
        for order in self._client.smembers(key):
            owner, _, name = order.decode("utf-8", "replace").partition("/")
            if not is_attempt(owner, name) or self._attempts.end(owner, name):
                self._publish()
                self._client.srem(key, order)

    def _require_own_name(self) -> None:
        """Raise Conflict if a worker of this name is alive on another machine, and reported before this one."""
        data = self._client.get(self._keys.report(self._name))
        try:
            other = WorkerReport.model_validate_json(data) if data is not None else None
        except ValueError:
            return
        if other is None or other.stopped or other.machine in ("", self._machine):
            return
        began_at_ms = self._started_at_ms
        if began_at_ms and (began_at_ms, self._machine) < (other.started_at_ms, other.machine):
            return  # the other one finds the report of this worker, and ends
        raise Conflict(
            f"A worker with the name {self._name} is alive on {other.host} (process {other.pid}). Choose "
            "another name with --name, or stop that worker; if it is dead, its name is free after "
            f"{REPORT_EXPIRY_S:.0f} s."
        )


def _broker_exceptions() -> tuple[type[Exception], ...]:
    from redis.exceptions import RedisError

    return (RedisError, OSError)


def _machine_id(directory: Path) -> str:
    """Return a random id that is stored in the worker's directory."""
    path = directory / MACHINE_FILE
    with contextlib.suppress(FileExistsError):
        write_atomic(path, os.urandom(8).hex().encode(), overwrite=False)
    return path.read_text().strip()


def _json_text(text: str) -> str:
    import json

    return json.dumps(text)
