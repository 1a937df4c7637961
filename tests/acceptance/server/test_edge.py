"""Requests from anyone who can connect: malformed headers, wrong tokens, values out of range."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from tests.acceptance.server.raw_http import request_bytes, send_raw
from tests.acceptance.server.real_server import Server, refused_start

TRAINING = "/api/v1/training"


@pytest.mark.parametrize("origin", ["http://[", "http://]", "://", "http://a:b", "[", "http://[::1"])
def test_a_malformed_origin_is_refused_without_a_server_error(server: Server, origin: str) -> None:
    for token in (None, server.token):
        answer = server.ask("POST", TRAINING, {"command": ["true"]}, token=token, headers={"Origin": origin})
        assert (answer.status, answer.json["code"]) == (403, "origin_not_allowed")


def test_an_origin_with_another_scheme_is_refused(server: Server) -> None:
    https = server.url.replace("http://", "https://")
    refused = server.ask("POST", TRAINING, {"command": ["true"]}, headers={"Origin": https})
    assert (refused.status, refused.json["code"]) == (403, "origin_not_allowed")


@pytest.mark.parametrize("host", ["[", "]", "[::1", "127.0.0.1:1@evil.example", "127.0.0.1:99999", "a b"])
def test_a_malformed_host_is_refused_without_a_server_error(server: Server, host: str) -> None:
    raw = request_bytes("GET", "/healthz", {"Host": host})
    assert send_raw(server.url, raw).startswith(b"HTTP/1.1 421 ")


@pytest.mark.parametrize("name", ["public_url", "allowed_origins"])
def test_a_malformed_origin_in_the_settings_is_named_at_start(tmp_path: Path, name: str) -> None:
    code, message = refused_start(tmp_path / "state", **{f"ANYGPU_SERVER__{name.upper()}": "http://["})
    assert (code, message.count("\n")) == (1, 1)
    assert f"server.{name} = 'http://['" in message


def test_a_valid_token_is_not_limited_by_requests_of_others(new_server: Callable[..., Server]) -> None:
    server = new_server(ANYGPU_LIMITS__FAILED_LOGINS_PER_MIN="5")
    assert {server.ask("GET", TRAINING, token=None).status for _ in range(45)} == {401}
    assert server.ask("GET", TRAINING).status == 200
    assert {server.ask("GET", TRAINING, token="wrong").status for _ in range(45)} == {401, 429}
    assert server.ask("GET", TRAINING).status == 200
    assert server.ask("GET", TRAINING, token=None).status == 401


@pytest.mark.parametrize("fraction", ["1e308", "-1e308", "NaN", "1e999", "-3"])
def test_progress_out_of_range_does_not_break_the_job(server: Server, fraction: str) -> None:
    job_id = server.submit(command=["sleep", "600"])
    server.wait(job_id, lambda job: job["phase"] == "training")
    _report(server, job_id, f'"fraction": {fraction}, "epoch": {fraction}, "step": {fraction}')
    task = server.ask("GET", f"/status?task_id={job_id}")
    assert task.status == 200
    assert 0 <= task.json["progress"]["progress_percent"] <= 100
    for path in (TRAINING, f"{TRAINING}/{job_id}", f"{TRAINING}/{job_id}/metrics"):
        assert server.ask("GET", path).status == 200
    shown = server.job(job_id)["progress"]
    assert shown["fraction"] is None or 0 <= shown["fraction"] <= 1
    server.ask("POST", f"{TRAINING}/{job_id}/cancel")
    server.wait_ended(job_id)


def _report(server: Server, job_id: str, progress: str) -> None:
    """Send one progress report with the token of the running attempt, after the reports of its agent."""
    folder = server.state / "attempts" / f"anygpu-{job_id.replace('-', '')}-1"
    work: dict[str, Any] = json.loads((folder / "work.json").read_text())
    base = f"http://{urlsplit(server.agent_url).netloc}"
    end = time.monotonic() + 30
    while time.monotonic() < end:
        first = server.ask("POST", "/agent/v1/heartbeat", token=work["token"], base=base).json["acked"] + 1
        frame = f'{{"seq": {first}, "kind": "progress", {progress}}}\n'.encode()
        path = f"/agent/v1/reports?first={first}&last={first}"
        if server.ask("POST", path, frame, token=work["token"], base=base).status == 200:
            return
    raise AssertionError("no report was accepted")
