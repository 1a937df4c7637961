"""Celery workers behind a Redis or Valkey broker, such as one worker per GPU in a lab.

Each live worker is an offer. A message in the worker's own queue starts the agent there.
"""

import asyncio
import contextlib
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from anygpu.backends.celery.broker import ANSWER_TIMEOUT_S, BrokerUnknown, describe_broker_error
from anygpu.backends.celery.broker_client import BrokerClient, BrokerState
from anygpu.backends.celery.messages import START_TASK, BrokerKeys, StartMessage, WorkerReport, start_message
from anygpu.backends.celery.observe import observe
from anygpu.backends.celery.offers import account_status, build_offer, busy_reason, report_host
from anygpu.backends.celery.options import CeleryOptions
from anygpu.backends.contract import (
    AccountStatus,
    HostReport,
    LaunchRequest,
    MachineState,
    NativeRequest,
    Observation,
)
from anygpu.backends.owner import owner_tag
from anygpu.backends.registry import BackendContext
from anygpu.backends.relay.contract import RelayTransport
from anygpu.errors import BackendUnavailable, NoCapacity
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Resources

NEEDED_MODULES, EXTRA = ("celery", "redis"), "celery"
Options = CeleryOptions  # the registry finds the options by this name
SEND_TIMEOUT_S = 15.0
END_TIMEOUT_S = 15.0
POLL_S = 0.1
FEED_TIMEOUT_S = 5.0
FEED_RETRY_S = 2.0


async def open_backend(name: str, options: CeleryOptions, context: BackendContext) -> "CeleryBackend":
    opened = CeleryBackend(
        name,
        options,
        secret=context.secret,
        on_change=context.on_change,
        relay=context.relays.choose(options.relay),
    )
    opened.start()
    return opened


class CeleryBackend:
    """Runs attempts on the Celery workers of one queue."""

    probe_every_s = 0.0

    def __init__(
        self,
        name: str,
        options: CeleryOptions,
        *,
        secret: bytes,
        on_change: Callable[[str], None] = lambda name: None,
        relay: RelayTransport | None = None,
    ) -> None:
        self.name = name
        self.relay = relay
        self._options = options
        self._address = options.address
        self._keys = BrokerKeys(options.queue)
        self._broker = BrokerClient(self._address, self._keys)
        # The label must not change: directories on the workers' machines carry the owner id.
        self._owner = owner_tag(secret, "owner of attempts on workers")
        self._on_change = on_change
        self._last_reports: list[WorkerReport] = []
        self._unconfirmed: set[str] = set()  # attempts whose message may or may not have reached the broker
        self._feed: asyncio.Task[None] | None = None
        self._app: Any = None

    def start(self) -> None:
        """Follow the changes that workers announce, so that an attempt that ends is probed immediately."""
        self._feed = asyncio.create_task(self._follow_changes())

    async def offers(self, need: Resources) -> Sequence[Offer]:
        """Return one offer per live worker.

        While the broker does not answer, the workers that were alive before are offered as busy, with the reason.
        """
        try:
            self._last_reports, problem = [*(await self._broker.read()).reports.values()], ""
        except BackendUnavailable as error:
            if not self._last_reports:
                raise
            problem = str(error)
        offers = [
            build_offer(report, need, backend=self.name, options=self._options)
            for report in self._last_reports
        ]
        return [replace(offer, free=0, wait_reason=problem) for offer in offers] if problem else offers

    async def launch(self, launch: LaunchRequest, offer: Offer) -> Handle:
        """Send the message that starts the agent to the queue of the offer's worker."""
        state = await self._read_for_launch(launch.name)
        if (existing := self._find(state, launch.name)) is not None:
            self._unconfirmed.discard(launch.name)
            return existing
        report = state.reports.get(offer.name)
        reason = busy_reason(report, launch.resources) if report else self._lost_text(state, offer.name)
        if report is None or reason:
            raise NoCapacity(
                reason[:1].upper() + reason[1:], hint="No action is needed: the job waits for a free worker."
            )
        self._unconfirmed.add(launch.name)
        await self._send(start_message(launch, self._owner), report.name)
        self._unconfirmed.discard(launch.name)
        return Handle(name=launch.name, native=_native(report, state.now_ms))

    async def probe(self, handle: Handle) -> Observation:
        return observe(await self._broker.read(handle.native.get("worker")), handle, self._owner)

    async def terminate(self, handle: Handle) -> None:
        """End the attempt on its worker, remove its message, and wait until the worker confirms it.

        A lost worker reads the order when it returns.
        """
        state = await self._broker.read(handle.native.get("worker"))
        await self._broker.remove_messages(state.queued(handle.name, self._owner))
        workers = self._workers_of(state, handle)
        await self._broker.order_end(workers, handle.name, self._owner)
        self._unconfirmed.discard(handle.name)
        end = time.monotonic() + END_TIMEOUT_S
        while waiting := await self._unconfirmed_ends(workers, handle.name):
            if time.monotonic() > end:
                raise BackendUnavailable(
                    f"The worker {waiting[0]} has not confirmed the end of the attempt {handle.name} for "
                    f"{END_TIMEOUT_S:.0f} s; it is asked again. If the problem persists, read its log and restart it."
                )
            await asyncio.sleep(POLL_S)

    async def inventory(self) -> Sequence[Handle]:
        """List the attempts of this server that run on workers or wait in their queues."""
        state = await self._broker.read()
        running = {
            attempt.name: Handle(name=attempt.name, native={"worker": report.name})
            for report in state.reports.values()
            for attempt in report.attempts
            if attempt.owner == self._owner
        }
        waiting = {
            each.name: Handle(name=each.name, native={"worker": each.worker})
            for each in state.messages
            if each.owner == self._owner
        }
        return [*(waiting | running).values()]

    async def check(self) -> AccountStatus:
        state = await self._broker.read()
        facts = await self._broker.server_facts()
        others = await self._broker.other_queues() if not state.reports else []
        return account_status(self._address, self._keys, state, facts, others)

    async def hosts(self) -> Sequence[HostReport]:
        """Describe each live worker."""
        return [report_host(report) for report in (await self._broker.read()).reports.values()]

    async def native_requests(self, launch: LaunchRequest, offer: Offer) -> Sequence[NativeRequest]:
        message = start_message(launch, self._owner)
        hidden = {**message.ticket, "ticket": "(the one-time ticket of the attempt)"}
        if "relay" in hidden:
            hidden["relay"] = "(the addresses of the attempt's mailbox)"
        task = self._task(message.model_copy(update={"ticket": hidden}), offer.name)
        return [
            NativeRequest(
                title=f"Celery message to the queue {task['queue']} of {self._address.display}",
                language="json",
                text=json.dumps(task, indent=2),
            )
        ]

    async def close(self) -> None:
        """Disconnect from the broker. The agents keep running."""
        if self._feed is not None:
            self._feed.cancel()
            await asyncio.gather(self._feed, return_exceptions=True)
        await self._broker.close()
        if self._app is not None:
            await asyncio.to_thread(self._app.close)

    # -- launch -----------------------------------------------------------------------------------------------

    async def _read_for_launch(self, name: str) -> BrokerState:
        """Read the broker before a launch.

        If the broker does not answer and no message can be there, nothing was started: the job waits.
        """
        try:
            return await self._broker.read()
        except BackendUnavailable as error:
            if name in self._unconfirmed:
                raise BrokerUnknown(
                    f"It is not known whether the message of {name} arrived: {error}"
                ) from error
            raise NoCapacity(str(error), hint="The job waits until the broker answers.") from error

    def _find(self, state: BrokerState, name: str) -> Handle | None:
        """Return the handle of an attempt whose message was sent before."""
        for report in state.reports.values():
            seen = [(each.name, each.owner) for each in report.attempts]
            seen += [(each.name, each.owner) for each in report.ended]
            if (name, self._owner) in seen:
                return Handle(name=name, native=_native(report, state.now_ms))
        for message in state.queued(name, self._owner):
            if (report_of := state.reports.get(message.worker)) is not None:
                return Handle(name=name, native=_native(report_of, state.now_ms))
        return None

    def _lost_text(self, state: BrokerState, worker: str) -> str:
        silence_s = state.silence_s(worker)
        since = "" if silence_s is None else f" for {silence_s:.0f} s"
        return f"the worker {worker} has not reported{since}"

    def _task(self, message: StartMessage, worker: str) -> dict[str, Any]:
        """Return the Celery task that starts an attempt. Its id is the attempt's name, so that Flower shows it."""
        return {
            "task": START_TASK,
            "id": message.name,
            "queue": self._keys.worker_queue(worker),
            "headers": {"anygpu_owner": self._owner},
            "kwargs": {"message": message.model_dump(mode="json")},
        }

    async def _send(self, message: StartMessage, worker: str) -> None:
        task = self._task(message, worker)
        try:
            async with asyncio.timeout(SEND_TIMEOUT_S):
                await asyncio.to_thread(partial(self._send_now, **task))
        except Exception as error:
            text = describe_broker_error(self._address, error)
            raise BrokerUnknown(
                f"It is not known whether the message of {message.name} arrived: {text}"
            ) from error

    def _send_now(
        self, *, task: str, id: str, queue: str, headers: dict[str, str], kwargs: dict[str, Any]
    ) -> None:
        from anygpu.backends.celery.app import make_app, make_queue

        if self._app is None:
            # A connection that was idle may be dead without a sign; the thread must not wait for ever.
            self._app = make_app(self._address, answer_timeout_s=ANSWER_TIMEOUT_S)
        self._app.send_task(
            task,
            kwargs=kwargs,
            task_id=id,
            queue=make_queue(queue),
            headers=headers,
            serializer="json",
            retry=False,
            argsrepr="()",
            kwargsrepr=f"{{'name': {id!r}}}",  # Flower shows this: the ticket must not be in it
        )

    # -- terminate --------------------------------------------------------------------------------------------

    def _workers_of(self, state: BrokerState, handle: Handle) -> list[str]:
        """Return the worker of an attempt; all live workers if it is not known which one has it."""
        listed = [
            report.name
            for report in state.reports.values()
            if any((a.name, a.owner) == (handle.name, self._owner) for a in report.attempts)
        ]
        chosen = handle.native.get("worker")
        if isinstance(chosen, str):
            return list(dict.fromkeys([chosen, *listed]))
        return listed or list(state.reports)

    async def _unconfirmed_ends(self, workers: Sequence[str], name: str) -> list[str]:
        """Return the live workers that have not yet carried out the order to end the attempt."""
        state = await self._broker.read()
        return [
            worker
            for worker in workers
            if worker in state.reports
            and (
                await self._broker.has_end_order(worker, name, self._owner)
                or observe(state, Handle(name=name), self._owner).state
                in (MachineState.RUNNING, MachineState.EXITED)
            )
        ]

    # -- changes ----------------------------------------------------------------------------------------------

    async def _follow_changes(self) -> None:
        """Call `on_change` for each attempt of this server that a worker announces, until cancelled."""
        while True:
            with contextlib.suppress(BackendUnavailable):
                feed = await self._broker.changes()
                try:
                    await self._report_running()
                    while True:
                        self._report_change(await feed.next(FEED_TIMEOUT_S))
                finally:
                    await feed.close()
            await asyncio.sleep(FEED_RETRY_S)

    async def _report_running(self) -> None:
        for handle in await self.inventory():
            self._on_change(handle.name)

    def _report_change(self, change: str | None) -> None:
        owner, _, name = (change or "").partition("/")
        if owner == self._owner and name:
            self._on_change(name)


def _native(report: WorkerReport, now_ms: int) -> dict[str, Any]:
    return {"worker": report.name, "instance": report.instance, "sent_at_ms": now_ms}
