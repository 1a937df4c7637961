"""A connection to the broker that is dead without a sign, as after a firewall has forgotten it."""

import asyncio
from pathlib import Path

import pytest
from tests.contracts.backends.celery_workers import open_broker

from anygpu.backends.celery.backend import CeleryBackend
from anygpu.backends.celery.broker import BrokerUnknown
from anygpu.backends.celery.messages import StartMessage
from anygpu.backends.celery.options import CeleryOptions
from anygpu.testing.servers.cuttable_proxy import CuttableProxy

pytestmark = [pytest.mark.extended, pytest.mark.timeout(120)]
MESSAGE = StartMessage(name=f"anygpu-{'a' * 32}-1", owner="a" * 12, ticket={})


async def test_a_message_into_a_dead_connection_blocks_no_thread(tmp_path: Path) -> None:
    with open_broker(tmp_path / "broker") as broker:
        async with CuttableProxy(broker.port) as wire:
            options = CeleryOptions(broker=f"redis://127.0.0.1:{wire.port}/0")
            backend = CeleryBackend("lab", options, secret=b"s")
            await backend._send(MESSAGE, "cpu0@lab1")
            wire.freeze()
            with pytest.raises(BrokerUnknown):
                await backend._send(MESSAGE, "cpu0@lab1")
            await backend._send(MESSAGE, "cpu0@lab1")  # with another connection
            assert broker.queued("cpu0@lab1") == 2
            await backend.close()
            async with asyncio.timeout(10):  # it waits for the threads
                await asyncio.get_running_loop().shutdown_default_executor()
