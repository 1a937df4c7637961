"""Read and change what anygpu keeps in the broker: reports of workers, waiting messages, and orders to end attempts."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anygpu.backends.celery.broker import BrokerAddress, broker_errors
from anygpu.backends.celery.content import QueuedMessage, parse_message, parse_report, parse_workers
from anygpu.backends.celery.messages import END_ORDER_EXPIRY_S, BrokerKeys, WorkerReport

MAX_MESSAGES = 1_000  # how many messages of one queue are read; a worker's queue normally has none


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerState:
    """What the broker contained at `now_ms`, by its own clock."""

    now_ms: int
    reports: Mapping[str, WorkerReport]  # of the workers that are alive, by name
    stopped: Mapping[str, WorkerReport]  # last reports of workers that were stopped, until they expire
    silent_since_ms: Mapping[str, int]  # workers whose report has expired -> time of their last report
    invalid: Sequence[str]  # workers whose report cannot be read
    messages: Sequence[QueuedMessage]

    def silence_s(self, worker: str) -> float | None:
        """Return for how long a lost worker has sent nothing; None if the broker does not know the worker."""
        since_ms = self.silent_since_ms.get(worker)
        return None if since_ms is None else max(0.0, (self.now_ms - since_ms) / 1000)

    def queued(self, name: str, owner: str) -> list[QueuedMessage]:
        return [each for each in self.messages if (each.name, each.owner) == (name, owner)]


class BrokerClient:
    """Asynchronous access to the broker. Every method raises BackendUnavailable if the broker does not answer."""

    def __init__(self, address: BrokerAddress, keys: BrokerKeys) -> None:
        self._address = address
        self._keys = keys
        self._client = address.async_client()

    async def close(self) -> None:
        await self._client.aclose()

    async def read(self, worker: Any = None) -> BrokerState:
        """Read the messages first and the reports second.

        A message that a worker takes in between is then missing in both, but never counted as waiting and running.
        The queue of `worker` is read even if the broker has forgotten the worker.
        """
        with broker_errors(self._address):
            known = await self._client.zrange(self._keys.workers, 0, -1, withscores=True)
            last_ms = parse_workers(known)
            names = [*last_ms]
            also = [worker] if isinstance(worker, str) and worker not in names else []
            messages = await self._messages([*names, *also])
            seconds, micros = await self._client.time()
            raw = await self._client.mget([self._keys.report(name) for name in names]) if names else []
        reports = {name: parse_report(data) for name, data in zip(names, raw, strict=True) if data}
        valid = {name: each for name, each in reports.items() if each is not None and each.name == name}
        return BrokerState(
            now_ms=seconds * 1000 + micros // 1000,
            reports={name: each for name, each in valid.items() if not each.stopped},
            stopped={name: each for name, each in valid.items() if each.stopped},
            silent_since_ms={
                name: at_ms for name, at_ms in last_ms.items() if at_ms is not None and name not in reports
            },
            invalid=[name for name in reports if name not in valid],
            messages=messages,
        )

    async def order_end(self, workers: Sequence[str], name: str, owner: str) -> None:
        """Order the workers to end an attempt, and never to start it. The order waits a day for a lost worker."""
        with broker_errors(self._address):
            for worker in workers:
                async with self._client.pipeline(transaction=True) as pipe:
                    pipe.sadd(self._keys.ends(worker), f"{owner}/{name}")
                    pipe.expire(self._keys.ends(worker), END_ORDER_EXPIRY_S)
                    pipe.publish(self._keys.wake(worker), "end")
                    await pipe.execute()

    async def has_end_order(self, worker: str, name: str, owner: str) -> bool:
        with broker_errors(self._address):
            return bool(await self._client.sismember(self._keys.ends(worker), f"{owner}/{name}"))

    async def remove_messages(self, messages: Sequence[QueuedMessage]) -> int:
        """Remove messages from their queues. Return how many were still there."""
        with broker_errors(self._address):
            return sum(
                [
                    int(await self._client.lrem(self._keys.worker_queue(each.worker), 0, each.raw))
                    for each in messages
                ]
            )

    async def server_facts(self) -> dict[str, Any]:
        """Return the broker's own description: version, memory policy and persistence."""
        with broker_errors(self._address):
            facts: dict[str, Any] = await self._client.info()
            with contextlib.suppress(Exception):  # managed services forbid CONFIG
                facts |= await self._client.config_get("maxmemory-policy")
            return facts

    async def other_queues(self) -> list[str]:
        """Return the other queues of this broker that have workers, for messages about a wrong queue name."""
        with broker_errors(self._address):
            found = [key async for key in self._client.scan_iter(match="anygpu:*:workers", count=1000)]
        names = {
            key.decode("utf-8", "replace").removeprefix("anygpu:").removesuffix(":workers") for key in found
        }
        return sorted(names - {self._keys.queue})

    async def changes(self) -> "ChangeFeed":
        """Subscribe to the names of attempts that start or end on workers."""
        feed = self._client.pubsub(ignore_subscribe_messages=True)
        with broker_errors(self._address):
            await feed.subscribe(self._keys.changes)
        return ChangeFeed(self._address, feed)

    async def _messages(self, workers: Sequence[str]) -> list[QueuedMessage]:
        async with self._client.pipeline(transaction=False) as pipe:
            for worker in workers:
                pipe.lrange(self._keys.worker_queue(worker), 0, MAX_MESSAGES)
            queues = await pipe.execute()
        return [
            message
            for worker, queue in zip(workers, queues, strict=True)
            for raw in queue
            if (message := parse_message(worker, raw)) is not None
        ]


class ChangeFeed:
    """A subscription to the changes that workers announce."""

    def __init__(self, address: BrokerAddress, feed: Any) -> None:
        self._address, self._feed = address, feed

    async def next(self, timeout_s: float) -> str | None:
        """Return the next `owner/attempt` that has changed, or None after `timeout_s`."""
        with broker_errors(self._address):
            message = await self._feed.get_message(timeout=timeout_s)
        return message["data"].decode("utf-8", "replace") if message else None

    async def close(self) -> None:
        await self._feed.aclose()
