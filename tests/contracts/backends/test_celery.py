"""The Celery backend with a real Valkey, real workers and real agents."""

import asyncio
import json
import os
import pickle
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.contracts.backends.celery_workers import (
    QUEUE,
    TestBroker,
    TestWorker,
    TlsProxy,
    free_port,
    open_broker,
    open_worker,
)

from anygpu.agent.host import processes
from anygpu.backends.celery.backend import CeleryBackend
from anygpu.backends.celery.messages import start_message
from anygpu.backends.celery.options import CeleryOptions
from anygpu.backends.contract import (
    MachineState,
    SupportsAccountCheck,
    SupportsHosts,
    SupportsInventory,
    SupportsNativeRequest,
)
from anygpu.errors import BackendUnavailable, NoCapacity
from anygpu.events.offers import Handle
from anygpu.spec.sections import Resources
from anygpu.testing.contracts.backend import (
    BackendContract,
    first_free_offer,
    new_launch,
    wait_for_state,
    wait_until,
)
from anygpu.testing.servers.agent_listener import AgentListener


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestBroker]:
    with open_broker(tmp_path_factory.mktemp("broker")) as made:
        yield made


@pytest.fixture(scope="module")
def worker(tmp_path_factory: pytest.TempPathFactory, broker: TestBroker) -> Iterator[TestWorker]:
    with open_worker(tmp_path_factory.mktemp("machines"), broker) as made:
        yield made


class CeleryPlace:
    def __init__(self, listener: AgentListener, broker: TestBroker, worker: TestWorker) -> None:
        self.listener, self.broker, self.worker = listener, broker, worker
        self.agent_url = listener.url
        self.changes: list[str] = []
        self.backends: list[CeleryBackend] = []
        self.backend = self.fresh_backend()

    def fresh_backend(self, secret: bytes = b"one server's secret", url: str = "") -> CeleryBackend:
        made = CeleryBackend(
            "lab", CeleryOptions(broker=url or self.broker.url), secret=secret, on_change=self.changes.append
        )
        self.backends.append(made)
        return made

    def count_agents(self) -> int:
        return len(self.listener.claims)


@pytest.fixture
async def place(broker: TestBroker, worker: TestWorker) -> AsyncIterator[CeleryPlace]:
    with AgentListener({"shell": "sleep 1000"}) as listener:
        made = CeleryPlace(listener, broker, worker)
        yield made
        for handle in await made.backend.inventory():
            await made.backend.terminate(handle)
        for backend in made.backends:
            await backend.close()


class TestCelery(BackendContract):
    async def test_a_busy_worker_is_offered_with_the_reason_and_takes_the_next_job_when_it_is_free(
        self, place: CeleryPlace
    ) -> None:
        offer = await first_free_offer(place)
        assert (offer.name, offer.own, offer.free, offer.gpu_count) == ("cpu0@lab1", True, 1, 0)
        first = await place.backend.launch(new_launch(place), offer)
        await wait_for_state(place, first, MachineState.RUNNING)
        [busy] = await place.backend.offers(Resources())
        assert (busy.free, busy.wait_reason) == (0, f"the worker cpu0@lab1 runs {first.name}")
        with pytest.raises(NoCapacity, match=f"The worker cpu0@lab1 runs {first.name}"):
            await place.backend.launch(new_launch(place, 2), offer)
        await place.backend.terminate(first)
        second = await place.backend.launch(new_launch(place, 2), offer)
        await wait_for_state(place, second, MachineState.RUNNING)
        await place.backend.terminate(second)

    async def test_jobs_on_two_workers_of_a_machine_never_reserve_more_cpus_than_it_has(
        self, place: CeleryPlace, tmp_path: Path
    ) -> None:
        whole = Resources(cpus=os.cpu_count())
        first = await place.backend.launch(
            replace(new_launch(place), resources=whole), await first_free_offer(place)
        )
        await wait_for_state(place, first, MachineState.RUNNING)
        with open_worker(tmp_path, place.broker, "lab1b", home=place.worker.home) as other:
            offers = {offer.name: offer for offer in await place.backend.offers(whole)}
            assert offers[other.name].free == 0
            assert f"0 of {os.cpu_count()} CPUs of the machine of" in offers[other.name].wait_reason
            late = replace(new_launch(place, 2), resources=whole)  # chosen before the worker had reported
            await place.backend._send(start_message(late, place.backend._owner), other.name)
            refused = Handle(name=late.name, native={"worker": other.name})
            gone = await wait_for_state(place, refused, MachineState.GONE)
            assert gone.failure is not None
            assert gone.failure.code == "no_capacity"
            await place.backend.terminate(first)
            await place.backend._send(start_message(late, place.backend._owner), other.name)
            await wait_for_state(place, refused, MachineState.RUNNING)
            await place.backend.terminate(refused)
        place.broker.forget(other.name)

    async def test_an_attempt_leaves_nothing_in_the_broker(self, place: CeleryPlace) -> None:
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        await wait_for_state(place, handle, MachineState.RUNNING)
        assert place.broker.client.hlen("unacked") == 0  # acknowledged when it was taken
        await place.backend.terminate(handle)
        await wait_for_state(place, handle, MachineState.GONE)
        assert set(place.broker.contents()) == {f"anygpu:{QUEUE}:workers", f"anygpu:{QUEUE}:worker:cpu0@lab1"}

    async def test_a_killed_agent_is_reported_at_once_with_how_it_ended(self, place: CeleryPlace) -> None:
        place.backend.start()
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        await wait_until(lambda: len(processes.processes_by_attempt().get(handle.name, [])) == 2)
        await wait_until(lambda: handle.name in place.changes)
        place.changes.clear()
        os.kill(min(processes.processes_by_attempt()[handle.name]), signal.SIGKILL)
        await wait_until(lambda: handle.name in place.changes)
        gone = await wait_for_state(place, handle, MachineState.GONE)
        assert gone.detail == "the agent on cpu0@lab1 was killed by signal 9"
        assert handle.name not in processes.processes_by_attempt()
        await wait_until(lambda: len(place.listener.ends) == 1)  # the worker delivers what the agent left
        assert place.listener.ends[0]["outcome"] == "agent_lost"

    async def test_a_killed_worker_leaves_the_agent_running_and_finds_it_again(
        self, place: CeleryPlace
    ) -> None:
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        await wait_until(lambda: len(processes.processes_by_attempt().get(handle.name, [])) == 2)
        before = processes.processes_by_attempt()[handle.name]
        place.worker.kill()
        place.worker.start()
        assert (await place.backend.probe(handle)).state is MachineState.RUNNING
        assert (await place.backend.offers(Resources()))[0].free == 0
        assert (place.count_agents(), processes.processes_by_attempt()[handle.name]) == (1, before)
        await place.backend.terminate(handle)
        assert (await place.backend.probe(handle)).state not in (MachineState.RUNNING, MachineState.PENDING)
        assert handle.name not in processes.processes_by_attempt()

    async def test_a_worker_delivers_for_an_agent_that_died_with_it(self, place: CeleryPlace) -> None:
        handle = await launch_running(place)
        place.worker.kill()
        processes.kill_attempt(handle.name)
        assert place.listener.ends == []
        place.worker.start()
        await wait_until(lambda: [end["outcome"] for end in place.listener.ends] == ["agent_lost"])

    async def test_a_worker_delivers_for_an_agent_of_an_earlier_worker_process(
        self, place: CeleryPlace
    ) -> None:
        handle = await launch_running(place)
        place.worker.kill()
        place.worker.start()
        os.kill(min(processes.processes_by_attempt()[handle.name]), signal.SIGKILL)
        await wait_until(lambda: [end["outcome"] for end in place.listener.ends] == ["agent_lost"])
        await wait_until(lambda: handle.name not in processes.processes_by_attempt())

    async def test_an_attempt_that_was_ended_does_not_start_from_a_message_that_comes_later(
        self, place: CeleryPlace
    ) -> None:
        launch, offer = new_launch(place), await first_free_offer(place)
        handle = await place.backend.launch(launch, offer)
        await wait_for_state(place, handle, MachineState.RUNNING)
        await place.backend.terminate(handle)
        await place.backend._send(start_message(launch, place.backend._owner), place.worker.name)
        await wait_until(lambda: place.broker.queued(place.worker.name) == 0)
        last = new_launch(place, 2)
        await wait_for_state(place, await place.backend.launch(last, offer), MachineState.RUNNING)
        assert launch.name not in processes.processes_by_attempt()
        await wait_until(lambda: place.count_agents() == 2)
        await place.backend.terminate(Handle(name=last.name))

    async def test_a_message_that_nobody_has_taken_is_pending_and_can_be_removed(
        self, place: CeleryPlace
    ) -> None:
        offer = await first_free_offer(place)
        os.kill(place.worker.process.pid, signal.SIGSTOP)
        try:
            handle = await place.backend.launch(new_launch(place), offer)
            # Celery may have taken the message before it was stopped, but has not started anything.
            assert (await place.backend.probe(handle)).state is MachineState.PENDING
            assert [each.name for each in await place.backend.inventory()] in ([], [handle.name])
        finally:
            os.kill(place.worker.process.pid, signal.SIGCONT)
        await place.backend.terminate(handle)
        await wait_for_state(place, handle, MachineState.GONE, MachineState.ABSENT, MachineState.PENDING)
        assert place.broker.queued(place.worker.name) == 0
        assert handle.name not in processes.processes_by_attempt()

    async def test_foreign_messages_do_no_harm(self, place: CeleryPlace) -> None:
        client, worker = place.broker.client, place.worker
        queue = f"{QUEUE}.{worker.name}"
        pid = worker.process.pid
        for junk in (b"no json", b"[1, 2]", b'{"a": 1}', b"\xff\xfe", b'"' * 10, b"[" * 10_000):
            client.lpush(queue, junk)
        client.lpush(queue, _message("unknown.task", "[[], {}, {}]"))
        client.lpush(queue, _message("anygpu.start_attempt", '[[], {"message": {"name": "../x"}}, {}]'))
        client.lpush(queue, _message("anygpu.start_attempt", "[[1, 2], {}, {}]"))
        client.lpush(queue, _message("anygpu.start_attempt", "[" * 10_000))
        evil = pickle.dumps((os.system, ("true",))).decode("latin-1")
        client.lpush(
            queue, _message("anygpu.start_attempt", evil, content_type="application/x-python-serialize")
        )
        await wait_until(lambda: client.llen(queue) == 0)
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        await wait_for_state(place, handle, MachineState.RUNNING)
        assert (worker.process.poll(), worker.process.pid) == (None, pid)
        await wait_until(lambda: client.hlen("unacked") == 0)
        await place.backend.terminate(handle)

    async def test_an_order_that_the_worker_does_not_understand_is_refused_with_the_reason(
        self, place: CeleryPlace
    ) -> None:
        launch, offer = new_launch(place), await first_free_offer(place)
        order = {"protocol": 1, "name": launch.name, "owner": place.backend._owner, "ticket": {"urls": 5}}
        body = json.dumps([[], {"message": order}, {}])
        place.broker.client.lpush(f"{QUEUE}.{offer.name}", _message("anygpu.start_attempt", body))
        handle = Handle(name=launch.name, native={"worker": offer.name})
        await wait_until(lambda: launch.name in str(place.broker.report(offer.name)))
        gone = await place.backend.probe(handle)
        assert gone.failure is not None
        assert (gone.state, gone.failure.code) == (MachineState.GONE, "launch_refused")
        assert "does not understand the order: ticket: " in gone.failure.message

    async def test_an_impossible_time_of_a_worker_does_no_harm(self, place: CeleryPlace) -> None:
        await first_free_offer(place)
        times = {"cpu0@lab1": float("inf"), "lost@lab9": float("inf")}
        place.broker.client.zadd(f"anygpu:{QUEUE}:workers", times)
        try:
            assert [offer.name for offer in await place.backend.offers(Resources())] == ["cpu0@lab1"]
            assert (await place.backend.check()).valid
            assert await place.backend.inventory() == []
        finally:
            place.broker.forget("lost@lab9")

    async def test_a_report_that_is_not_valid_is_no_offer(self, place: CeleryPlace) -> None:
        client = place.broker.client
        client.set(
            f"anygpu:{QUEUE}:worker:evil@x", json.dumps({"protocol": 1, "name": "evil@x", "gpus": "many"})
        )
        client.zadd(f"anygpu:{QUEUE}:workers", {"evil@x": time.time() * 1000, "../../x": time.time() * 1000})
        try:
            assert [offer.name for offer in await place.backend.offers(Resources())] == ["cpu0@lab1"]
            assert "the report of the worker evil@x cannot be read" in (await place.backend.check()).message
        finally:
            for name in ("evil@x", "../../x"):
                place.broker.forget(name)

    async def test_servers_that_share_workers_do_not_see_each_others_attempts(
        self, place: CeleryPlace
    ) -> None:
        handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
        await wait_for_state(place, handle, MachineState.RUNNING)
        other = place.fresh_backend(secret=b"another server's")
        assert await other.inventory() == []
        assert (await other.probe(Handle(name=handle.name))).state is MachineState.ABSENT
        assert (await other.offers(Resources()))[0].free == 0
        await other.terminate(Handle(name=handle.name))
        assert (await place.backend.probe(handle)).state is MachineState.RUNNING
        await place.backend.terminate(handle)

    async def test_a_server_that_the_worker_cannot_reach_is_named_and_no_agent_starts(
        self, place: CeleryPlace
    ) -> None:
        url = f"http://127.0.0.1:{free_port()}"
        launch = replace(new_launch(place), agent_url=url)
        handle = await place.backend.launch(launch, await first_free_offer(place))
        gone = await wait_for_state(place, handle, MachineState.GONE)
        assert gone.failure is not None
        assert gone.failure.code == "no_capacity"
        assert (
            f"The worker cpu0@lab1 cannot reach the server at {url}: Connection refused"
            in gone.failure.message
        )
        assert "server.agent_url" in gone.failure.message

    async def test_only_the_first_address_that_answers_is_tried(self, place: CeleryPlace) -> None:
        with socket.create_server(("127.0.0.1", 0)) as other:
            other.setblocking(False)
            second = f"http://127.0.0.1:{other.getsockname()[1]}"
            launch = replace(new_launch(place), agent_urls=(place.listener.url, second))
            handle = await place.backend.launch(launch, await first_free_offer(place))
            await wait_until(lambda: place.count_agents() == 1)
            with pytest.raises(BlockingIOError):  # nobody has connected
                other.accept()
            await place.backend.terminate(handle)

    async def test_its_capabilities(self, place: CeleryPlace) -> None:
        backend = place.backend
        assert isinstance(backend, SupportsAccountCheck)
        assert isinstance(backend, SupportsHosts)
        assert isinstance(backend, SupportsInventory)
        assert isinstance(backend, SupportsNativeRequest)
        account = await backend.check()
        assert account.valid
        assert "(Valkey 9." in account.message
        assert "cpu0@lab1: no GPU, " in account.message
        [host] = await backend.hosts()
        assert (host.offer, host.problem) == ("cpu0@lab1", "")
        launch = new_launch(place)
        [request] = await backend.native_requests(launch, await first_free_offer(place))
        shown = json.loads(request.text)
        assert (shown["task"], shown["id"]) == ("anygpu.start_attempt", launch.name)
        assert shown["queue"] == "gpu-training.cpu0@lab1"
        assert shown["kwargs"]["message"]["ticket"]["ticket"] == "(the one-time ticket of the attempt)"

    async def test_without_workers_the_check_says_how_to_start_one(self, place: CeleryPlace) -> None:
        options = CeleryOptions(broker=place.broker.url, queue="elsewhere")
        backend = CeleryBackend("lab", options, secret=b"")
        account = await backend.check()
        assert account.valid
        assert "no worker of the queue elsewhere is alive" in account.message
        assert f"`anygpu worker --broker {place.broker.url} --queue elsewhere`" in account.message
        assert "Other queues of this broker: gpu-training." in account.message
        assert await backend.offers(Resources()) == []
        await backend.close()

    async def test_a_broker_that_does_not_answer_is_named_and_nothing_was_started(
        self, place: CeleryPlace
    ) -> None:
        offer = await first_free_offer(place)
        backend = place.fresh_backend(url=f"redis://127.0.0.1:{free_port()}/0")
        launch = new_launch(place)
        with pytest.raises(NoCapacity, match=r"The broker redis://127.0.0.1:\d+/0 does not answer"):
            await backend.launch(launch, offer)
        for call in (backend.probe, backend.terminate):
            with pytest.raises(BackendUnavailable, match="does not answer"):
                await call(Handle(name=launch.name))
        with pytest.raises(BackendUnavailable, match="does not answer"):
            await backend.offers(Resources())
        backend._last_reports = [*(await place.backend._broker.read()).reports.values()]
        [waiting] = await backend.offers(Resources())
        assert (waiting.name, waiting.free) == ("cpu0@lab1", 0)
        assert "does not answer" in waiting.wait_reason
        assert place.count_agents() == 0


async def launch_running(place: CeleryPlace) -> Handle:
    """Start an attempt, and wait until its script runs."""
    handle = await place.backend.launch(new_launch(place), await first_free_offer(place))
    await wait_until(lambda: len(processes.processes_by_attempt().get(handle.name, [])) == 2)
    return handle


def _message(task: str, body: str, content_type: str = "application/json") -> bytes:
    return json.dumps(
        {
            "body": body,
            "content-encoding": "utf-8",
            "content-type": content_type,
            "headers": {"task": task, "id": f"foreign-{len(body)}", "lang": "py"},
            "properties": {
                "delivery_info": {"exchange": "", "routing_key": QUEUE},
                "delivery_mode": 2,
                "delivery_tag": os.urandom(8).hex(),
                "priority": 0,
            },
        }
    ).encode()


class TestLogin:
    """A broker with a password."""

    async def test_a_wrong_password_is_named_and_the_right_one_works(self, tmp_path: Path) -> None:
        with open_broker(tmp_path / "broker", password="right") as broker:
            wrong = CeleryBackend("lab", CeleryOptions(broker=broker.url, password="wrong"), secret=b"")
            none = CeleryBackend("lab", CeleryOptions(broker=broker.url), secret=b"")
            right = CeleryBackend("lab", CeleryOptions(broker=broker.url, password="right"), secret=b"")
            with pytest.raises(BackendUnavailable, match=r"refused the login.*password"):
                await wrong.check()
            with pytest.raises(BackendUnavailable, match="requires a password, and none is given"):
                await none.check()
            assert ": no TLS, password\n" in (await right.check()).message
            await asyncio.gather(*(each.close() for each in (wrong, none, right)))

    async def test_server_and_worker_use_tls_and_a_password(self, tmp_path: Path) -> None:
        password = tmp_path / "password"
        password.write_text("right\n")
        with open_broker(tmp_path / "broker", password="right") as broker:
            proxy = TlsProxy(tmp_path / "tls", broker.port)
            url = f"rediss://127.0.0.1:{proxy.port}/0"
            options = ("--password-file", str(password), "--ca-file", str(proxy.ca_file))
            trusting = CeleryOptions(broker=url, password="right", ca_file=str(proxy.ca_file))
            backend = CeleryBackend("lab", trusting, secret=b"")
            distrusting = CeleryBackend("lab", CeleryOptions(broker=url, password="right"), secret=b"")
            with (
                open_worker(tmp_path, broker, "lab1", *options, url=url) as worker,
                AgentListener({"shell": "sleep 1000"}) as listener,
            ):
                assert ": TLS, password\n" in (await backend.check()).message
                with pytest.raises(BackendUnavailable, match=r"with TLS.*Check the certificate"):
                    await distrusting.check()
                place = CeleryPlace(listener, broker, worker)
                place.backend = backend
                handle = await backend.launch(new_launch(place), await first_free_offer(place))
                await wait_for_state(place, handle, MachineState.RUNNING)
                await backend.terminate(handle)
                assert "right" not in worker.log()
                await asyncio.gather(*(each.close() for each in (backend, distrusting, *place.backends)))
            proxy.close()
