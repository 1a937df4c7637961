"""Tokens, hosts, origins and login links; and the errors for bad requests."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.acceptance.server.real_server import Server

TRAINING = "/api/v1/training"


def test_a_request_without_a_token_is_refused(server: Server) -> None:
    answer = server.ask("GET", TRAINING, token=None)
    assert answer.status == 401
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["code"] == "unauthorized"
    assert server.ask("GET", "/nothing/here", token=None).status == 401
    assert server.ask("GET", "/healthz", token=None).json == {"ok": True}
    assert server.ask("GET", "/readyz", token=None).status == 200


def test_another_host_name_is_refused(server: Server) -> None:
    for path in (TRAINING, "/healthz"):
        assert server.ask("GET", path, headers={"Host": "evil.example"}).status == 421


def test_a_page_of_another_origin_is_refused(server: Server) -> None:
    spec = {"command": ["true"]}
    refused = server.ask("POST", TRAINING, spec, headers={"Origin": "https://evil.example"})
    assert (refused.status, refused.json["code"]) == (403, "origin_not_allowed")
    assert server.ask("POST", TRAINING, spec, headers={"Origin": server.url}).status == 201


def test_a_login_link_sets_a_cookie_once(server: Server) -> None:
    link = server.ask("POST", "/api/v1/login/links").json["url"]
    path = link.removeprefix(server.url)
    answer = server.ask("GET", path, token=None)
    assert answer.status == 303
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "samesite=strict" in cookie.lower()
    assert server.token not in link + cookie
    session = {"Cookie": cookie.split(";")[0]}
    assert server.ask("GET", "/api/v1/whoami", token=None, headers=session).json["organisation"] == "local"
    assert server.ask("GET", path, token=None).status == 401
    shown = server.ask("GET", answer.headers["location"], token=None, headers=session)
    assert {server.ask("GET", each, token=None, headers=session).status for each in shown.json.values()} == {
        200
    }
    assert server.ask("GET", "/", token=None).status == 401
    post = {**session, "Origin": server.url}
    assert server.ask("POST", TRAINING, {"command": ["true"]}, token=None, headers=session).status == 403
    assert server.ask("POST", TRAINING, {"command": ["true"]}, token=None, headers=post).status == 201
    assert server.ask("POST", "/api/v1/logout", token=None, headers=post).status == 204
    assert server.ask("GET", "/api/v1/whoami", token=None, headers=session).status == 401


def test_tokens_are_created_listed_and_revoked(server: Server) -> None:
    made = server.ask("POST", "/api/v1/tokens", {"name": "laptop", "role": "viewer"}).json
    assert server.ask("GET", TRAINING, token=made["token"]).status == 200
    assert server.ask("POST", TRAINING, {"command": ["true"]}, token=made["token"]).status == 403
    listed = server.ask("GET", "/api/v1/tokens").json["tokens"]
    assert made["id"] in [token["id"] for token in listed]
    assert made["token"] not in json.dumps(listed)
    assert server.ask("DELETE", f"/api/v1/tokens/{made['id']}").status == 204
    assert server.ask("GET", TRAINING, token=made["token"]).status == 401
    assert server.ask("DELETE", f"/api/v1/tokens/{made['id']}").status == 404


def test_secrets_are_listed_without_their_values(server: Server) -> None:
    assert server.ask("PUT", "/api/v1/secrets/HF_TOKEN", {"value": "hush"}).status == 204
    answer = server.ask("GET", "/api/v1/secrets")
    assert [secret["name"] for secret in answer.json["secrets"]] == ["HF_TOKEN"]
    assert server.ask("DELETE", "/api/v1/secrets/HF_TOKEN").status == 204
    assert server.ask("DELETE", "/api/v1/secrets/HF_TOKEN").status == 404
    assert b"hush" not in answer.data


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 422, "invalid_spec"),
        (b"{", 400, "malformed_request"),
        (b"\xff\xfe", 400, "malformed_request"),
        (b"[" * 100_000, 400, "malformed_request"),
        (b'{"command": ["true"], "priority": NaN}', 400, "malformed_request"),
        (b"[]", 422, "invalid_spec"),
        (b"{}", 422, "invalid_spec"),
        (b'{"scirpt": "train.py"}', 422, "invalid_spec"),
        (b'{"script": "../../etc/passwd"}', 422, "invalid_spec"),
        (b'{"command": ["true"], "workdir": {"archive": "' + b"0" * 64 + b'"}}', 422, "invalid_spec"),
        (b'{"command": ["true"], "resume_from": "nothing"}', 404, "not_found"),
        (b'{"command": ["\\u0000"]}', 422, "invalid_spec"),
        (b'{"command": ["\\ud800"]}', 422, "invalid_spec"),
        (b'{"command": "x", "priority": 1' + b"0" * 5000 + b"}", 400, "malformed_request"),
    ],
)
def test_a_bad_body_gets_a_problem(server: Server, body: bytes, status: int, code: str) -> None:
    answer = server.ask("POST", TRAINING, body)
    assert (answer.status, answer.json["code"]) == (status, code)
    assert b"Traceback" not in answer.data


def test_an_unknown_key_is_named_with_the_nearest_known_key(server: Server) -> None:
    answer = server.ask("POST", TRAINING, {"command": ["true"], "resources": {"gpus": 2}})
    assert answer.json["problems"][0]["place"] == "resources.gpus"
    assert "gpu" in answer.json["problems"][0]["suggestion"]


def test_a_huge_body_is_refused_without_being_read(server: Server) -> None:
    announced = {"Content-Length": str(10**12)}
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=10) as raw:
        raw.sendall(_head(server, announced))
        assert b" 413 " in raw.recv(65536)
    with socket.create_connection((parts.hostname, parts.port), timeout=10) as raw:
        raw.sendall(_head(server, {"Transfer-Encoding": "chunked"}))
        chunk = b"10000\r\n" + b"x" * 0x10000 + b"\r\n"
        sent = 0
        try:
            for _ in range(1000):
                raw.sendall(chunk)
                sent += 0x10000
        except OSError:
            pass  # the server closed on us, as it should
        assert sent < 1000 * 0x10000
    assert server.ask("GET", "/healthz").status == 200


def _head(server: Server, headers: dict[str, str]) -> bytes:
    own = {"Host": "127.0.0.1", "Authorization": f"Bearer {server.token}", **headers}
    lines = "".join(f"{name}: {value}\r\n" for name, value in own.items())
    return f"POST {TRAINING} HTTP/1.1\r\n{lines}\r\n".encode()


def test_unknown_paths_and_methods_are_problems(server: Server) -> None:
    for method, path, status in (
        ("GET", "/nothing", 404),
        ("GET", "/api/v1/training/no-such-job", 404),
        ("PATCH", TRAINING, 405),
        ("GET", f"{TRAINING}?limit=many", 422),
        ("GET", f"{TRAINING}?cursor=bogus", 404),
        ("GET", f"{TRAINING}/last/stream?include=everything", 422),
        ("PUT", "/api/v1/uploads/short", 422),
    ):
        answer = server.ask(method, path)
        assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json"), path
        assert answer.json["status"] == status


def test_an_archive_with_another_hash_is_refused(server: Server) -> None:
    answer = server.ask("PUT", f"/api/v1/uploads/{'0' * 64}", b"something else")
    assert 400 <= answer.status < 500
    assert server.ask("HEAD", f"/api/v1/uploads/{'0' * 64}").status == 404


def test_the_same_idempotency_key_is_the_same_job(server: Server) -> None:
    headers = {"Idempotency-Key": "once"}
    first = server.ask("POST", TRAINING, {"command": ["true"]}, headers=headers)
    second = server.ask("POST", TRAINING, {"command": ["true"]}, headers=headers)
    assert (first.status, second.status) == (201, 200)
    assert first.json["id"] == second.json["id"]
    assert (first.json["created"], second.json["created"]) == (True, False)


def test_too_many_requests_get_retry_after(new_server: Callable[..., Server]) -> None:
    server = new_server(ANYGPU_LIMITS__REQUESTS_PER_S="1", ANYGPU_LIMITS__REQUESTS_BURST="5")
    answers = [server.ask("GET", TRAINING) for _ in range(8)]
    limited = [answer for answer in answers if answer.status == 429]
    assert limited
    assert int(limited[0].headers["retry-after"]) >= 1


def test_compat_routes_answer_in_their_own_shapes(server: Server, tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    table.write_text("size,price\n" + "".join(f"{size},{size * 2}\n" for size in range(40)))
    body = {
        "tenant_id": "local",
        "training_params": {"epochs": 10, "target": "price"},
        "model_params": {"architecture": "ridge"},
        "dataset": str(table),
        "custom_name": "my training job!",
        "wandb_tags": ["tag1"],
    }
    made = server.ask("POST", "/orchestrate", body)
    assert made.status == 201
    status = server.ask("GET", f"/status?task_id={made.json['task_id']}").json
    assert {"task_id", "status", "created_at", "progress"} <= set(status)
    named = {"epoch", "total_epochs", "progress_percent", "message", "progress", "metrics", "status"}
    assert set(status["progress"]) == named
    assert status["progress"]["total_epochs"] == 10
    config = {"target": "price", "executor": "local", "dataset_path": str(table)}
    s1 = server.ask("POST", TRAINING, {"model_name": "ridge", "config": config})
    assert s1.status == 201
    assert {"job_id", "execution_id"} <= set(s1.json)


def test_metrics_are_prometheus_text(server: Server) -> None:
    text = server.ask("GET", "/metrics").data.decode()
    assert "anygpu_live_attempts " in text
    assert 'anygpu_report_commit_seconds_bucket{le="+Inf"}' in text


def test_a_dry_run_of_retention_reports_what_it_would_remove(server: Server) -> None:
    told = server.ask("POST", "/api/v1/gc?dry_run=true").json
    assert told["dry_run"] is True
    assert {"jobs", "attempts", "log_bytes", "metric_points", "files", "bytes"} <= set(told)
    assert (told["jobs"], told["files"]) == (0, 0)


def test_the_machine_and_the_queue_are_shown(server: Server) -> None:
    assert server.ask("GET", "/api/v1/monitoring/gpu").json["host"]["memory"]["total"] > 0
    queue = server.ask("GET", "/api/v1/queue").json
    assert [slot["backend"] for slot in queue["slots"]] == ["local"]
