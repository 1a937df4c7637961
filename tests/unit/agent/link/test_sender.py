"""The thread that sends reports survives every answer and every error of the disk."""

from __future__ import annotations

import io
import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from anygpu.agent.link.client import RequestRefused, ServerAddress, ServerClient
from anygpu.agent.link.http11 import StreamedResponse, Unreachable
from anygpu.agent.link.orders import AttemptLease, ServerOrders, boot_clock
from anygpu.agent.link.sender import ReportSender
from anygpu.agent.link.spool import Spool, decode_frames

WAIT_S = 60.0
PAGE = b"<html>405 Not Allowed</html>"
Answer = tuple[int, bytes]


class AnsweringServer(ServerAddress):
    """A server in this process. `intercept` may answer a request in its place, as a proxy does."""

    def __init__(self) -> None:
        super().__init__("http://server")
        self.expected = 1
        self.log = b""
        self.paths: list[str] = []
        self.timeouts_s: list[float] = []
        self.intercept: Callable[[str], Answer | None] = lambda path: None

    def connect(self) -> AnsweringConnection:
        return AnsweringConnection(self)

    def connect_to(self, url: str) -> AnsweringConnection:
        return AnsweringConnection(self)

    def wait(self, seconds: float) -> None:
        """Return at once, so that tests need no time."""

    def answer(self, path: str, body: bytes) -> Answer:
        self.paths.append(path)
        intercepted = self.intercept(path)
        if intercepted is not None:
            return intercepted
        frames = list(decode_frames(body))
        if frames and frames[0][0]["seq"] > self.expected:
            return 409, json.dumps({"code": "gap", "expected": self.expected}).encode()
        for header, _, payload, end in frames:
            if header["seq"] == self.expected:
                self.expected += 1
                self.log += body[payload:end]
        return 200, json.dumps({"acked": self.expected - 1, "lease_s": 60}).encode()


class AnsweringConnection:
    url = "http://server"

    def __init__(self, server: AnsweringServer) -> None:
        self._server = server

    def request(
        self, method: str, path: str, headers: dict[str, str], body: Any, timeout_s: float
    ) -> StreamedResponse:
        self._server.timeouts_s.append(timeout_s)
        status, content = self._server.answer(path, body)
        return StreamedResponse(status, {"content-length": str(len(content))}, io.BytesIO(content))

    def fail(self) -> None:
        """Keep no connection."""

    def close(self) -> None:
        """Keep no connection."""


@pytest.fixture
def server() -> AnsweringServer:
    return AnsweringServer()


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(str(tmp_path), 2**28)


@pytest.fixture
def orders() -> Iterator[ServerOrders]:
    made = ServerOrders(wake=lambda: None)
    yield made
    made.reject(RequestRefused(401, {"code": "unauthorized"}))  # so that the sender ends


def started_sender(
    server: AnsweringServer, spool: Spool, orders: ServerOrders, heartbeat_s: float = 1000.0
) -> ReportSender:
    lease = AttemptLease(boot_clock(), 60.0)
    sender = ReportSender(ServerClient(server), spool, lease, orders, heartbeat_s)
    sender.start()
    return sender


def delivered(sender: ReportSender) -> bool:
    return sender.deliver_all(time.monotonic() + WAIT_S)


@pytest.mark.parametrize("answer", [(400, PAGE), (302, b""), (405, b'{"code": "method_not_allowed"}')])
def test_refused_heartbeats_change_no_report(
    server: AnsweringServer, spool: Spool, orders: ServerOrders, answer: Answer
) -> None:
    refused = threading.Event()

    def refuse_six(path: str) -> Answer | None:
        if len(server.paths) > 6:
            refused.set()
            return None
        return answer

    server.intercept = refuse_six
    sender = started_sender(server, spool, orders, heartbeat_s=0.001)
    assert refused.wait(WAIT_S)
    spool.append_log(b"later output\n")
    assert delivered(sender)
    assert server.log == b"later output\n"


@pytest.mark.parametrize("answer", [(400, PAGE), (413, PAGE), (405, b'{"code": 405}')])
def test_a_report_is_not_replaced_because_of_the_answers_of_a_proxy(
    server: AnsweringServer, spool: Spool, orders: ServerOrders, answer: Answer
) -> None:
    server.intercept = lambda path: answer if len(server.paths) <= 6 else None
    spool.append_log(b"output\n")
    assert delivered(started_sender(server, spool, orders))
    assert server.log == b"output\n"


@pytest.mark.parametrize("status", [401, 403, 404])
def test_only_an_anygpu_server_can_reject_the_agent(
    server: AnsweringServer, spool: Spool, orders: ServerOrders, status: int
) -> None:
    server.intercept = lambda path: (status, PAGE) if len(server.paths) <= 10 else None
    spool.append_log(b"output\n")
    sender = started_sender(server, spool, orders)
    assert delivered(sender)
    assert orders.rejection is None
    server.intercept = lambda path: (status, b'{"code": "unauthorized"}')
    spool.append_log(b"more\n")
    assert not delivered(sender)
    assert server.log == b"output\n"


def test_reports_are_sent_after_an_error_of_the_disk(
    server: AnsweringServer, spool: Spool, orders: ServerOrders, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, failures = os.pread, iter(range(3))

    def fail_three_times(fd: int, size: int, offset: int) -> bytes:
        if next(failures, None) is not None:
            raise OSError("stale file handle")
        return read(fd, size, offset)

    monkeypatch.setattr(os, "pread", fail_three_times)
    spool.append_log(b"output\n")
    assert delivered(started_sender(server, spool, orders))
    assert server.log == b"output\n"


def test_a_server_that_lost_reports_gets_the_later_ones(
    server: AnsweringServer, spool: Spool, orders: ServerOrders
) -> None:
    """Its database was restored from a backup, for example."""
    sender = started_sender(server, spool, orders)
    spool.append_log(b"old\n")
    assert delivered(sender)
    server.expected, server.log = 1, b""
    spool.append_log(b"later\n")
    assert delivered(sender)
    assert server.log == b"old\nlater\n", "the file with the old report was still on the disk"
    spool._segments[0].size = 2**30
    spool.append_log(b"kept\n")
    assert delivered(sender)
    server.expected, server.log = 1, b""
    spool.append_log(b"new\n")
    assert delivered(sender)
    assert server.log.endswith(b"are missing here, because the server has lost them]\nkept\nnew\n")


@pytest.mark.parametrize("status", [401, 404])
def test_an_unknown_agent_is_rejected_only_by_an_anygpu_server(server: AnsweringServer, status: int) -> None:
    server.intercept = lambda path: (status, PAGE)
    with pytest.raises(Unreachable, match=f"answered {status}, but not as an anygpu server"):
        ServerClient(server).call("POST", "/agent/v1/heartbeat")


@pytest.mark.parametrize(
    ("status", "body", "is_foreign"),
    [
        (403, PAGE, True),
        (413, PAGE, True),
        (422, b'{"code": "invalid_report"}', False),
        (403, b'{"code": "superseded"}', False),
    ],
)
def test_other_refusals_say_whether_an_anygpu_server_gave_them(
    server: AnsweringServer, status: int, body: bytes, is_foreign: bool
) -> None:
    server.intercept = lambda path: (status, body)
    with pytest.raises(RequestRefused) as refused:
        ServerClient(server).call("POST", "/agent/v1/checkpoints")
    assert refused.value.is_foreign is is_foreign
    assert not (is_foreign and refused.value.is_rejection)
