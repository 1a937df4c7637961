"""Two servers on one PostgreSQL: each shows what happens at the other."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.server.real_server import Server
from tests.acceptance.server.test_live import is_summary_of, open_live
from tests.acceptance.server.test_streams import Client, ndjson, websocket
from tests.contracts.store.conftest import postgres_url  # noqa: F401 - a fixture


@pytest.fixture(scope="module")
def servers(
    postgres_url: str,  # noqa: F811
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[Server, Server]]:
    shared = tmp_path_factory.mktemp("shared")
    common = {
        "ANYGPU_STORE__DATABASE": postgres_url,
        "ANYGPU_STORE__BLOBS": (shared / "blobs").as_uri(),
        "ANYGPU_SERVER__SIGNING_KEY": str(shared / "signing.key"),
        "ANYGPU_CONTROL__POLL_EVENTS_S": "0.1",
    }
    first = Server(tmp_path_factory.mktemp("first"), **common)
    second = Server(
        tmp_path_factory.mktemp("second"),
        **common,
        ANYGPU_SERVER__CONTROL="no",
        ANYGPU_LOCAL__ENABLED="no",
    )
    yield first, second
    first.cancel_everything()
    first.stop()
    second.stop()


def test_a_stream_has_what_agents_report_to_another_server(servers: tuple[Server, Server]) -> None:
    first, second = servers
    code = "for i in range(50): print(f'step={i} loss={1 / (i + 1):.4f}', flush=True)"
    job_id = first.submit(code=code)
    for over in (ndjson, websocket):
        client = Client(second, f"/api/v1/training/{job_id}/stream")
        while not client.ended:
            over(client, 20)
        events = first.ask("GET", f"/api/v1/training/{job_id}/events").json["events"]
        assert [message["after"] for message in client.of("event")] == [each["position"] for each in events]
        assert client.log == first.ask("GET", f"/api/v1/training/{job_id}/logs").data
        steps = [point[1] for message in client.of("metrics") for point in message["points"]]
        assert steps == list(range(50))


def test_summaries_of_jobs_come_from_any_server(servers: tuple[Server, Server]) -> None:
    first, second = servers
    with open_live(second) as live:
        live.follow("p", project=True, after="now")
        live.next()
        short = first.submit(command=["true"])
        live.until(is_summary_of(short, status="completed"))
        long = first.submit(command=["sleep", "600"])
        live.until(is_summary_of(long, status="running"))
        first.ask("POST", f"/api/v1/training/{long}/cancel")
        live.until(is_summary_of(long, status="cancelled"))


def test_a_job_submitted_to_a_server_without_a_control_loop_runs(servers: tuple[Server, Server]) -> None:
    _, second = servers
    second.ask("PUT", "/api/v1/secrets/GREETING", {"value": "hello from afar"})
    job_id = second.submit(command=["sh", "-c", "echo $GREETING | wc -c"], secrets=["GREETING"])
    assert second.wait_ended(job_id)["status"] == "completed"
    assert second.ask("GET", f"/api/v1/training/{job_id}/logs").data.strip() == b"16"


def test_a_cancel_at_one_server_reaches_the_agent_of_the_other(servers: tuple[Server, Server]) -> None:
    first, second = servers
    job_id = first.submit(command=["sleep", "600"])
    first.wait(job_id, lambda job: job["phase"] == "training")
    second.ask("POST", f"/api/v1/training/{job_id}/cancel")
    assert first.wait_ended(job_id)["status"] == "cancelled"


def test_a_token_revoked_at_one_server_ends_at_the_other(servers: tuple[Server, Server]) -> None:
    first, second = servers
    made = first.ask("POST", "/api/v1/tokens", {"role": "viewer"}).json
    first.ask("DELETE", f"/api/v1/tokens/{made['id']}")
    assert second.ask("GET", "/api/v1/training", token=made["token"]).status == 401


def test_the_key_is_shared_and_private(servers: tuple[Server, Server]) -> None:
    key = Path(servers[0]._environment["ANYGPU_SERVER__SIGNING_KEY"])
    assert key.stat().st_mode & 0o777 == 0o600
    assert not (servers[0].state / "signing.key").exists()
