"""The route that lists the user's own machines."""

from collections.abc import Callable
from pathlib import Path

from tests.acceptance.server.real_server import Server

HOSTS = "/api/v1/hosts"


def test_the_servers_machine_is_listed_with_the_jobs_on_it(
    new_server: Callable[..., Server], tmp_path: Path
) -> None:
    server = new_server(ANYGPU_LOCAL__CPUS="1")
    gate = tmp_path / "gate"
    running = server.submit(command=f"while [ ! -e {gate} ]; do sleep 0.05; done", name="first")
    server.wait(running, lambda job: job["phase"] == "training")
    waiting = server.submit(command=["true"])
    server.wait(waiting, lambda job: job["queue_position"] == 1)
    listed = server.ask("GET", HOSTS).json
    (host,) = listed["hosts"]
    assert (host["backend"], host["online"], host["cpus"], host["free_cpus"]) == ("local", True, 1, 0)
    assert host["memory_total"] > host["memory_used"] > 0
    assert [(job["name"], job["phase"]) for job in host["jobs"]] == [("first", "training")]
    assert listed["waiting"] == 1
    gate.touch()
    server.wait_ended(waiting)


def test_an_ssh_host_that_does_not_answer_is_offline_with_the_reason(server: Server) -> None:
    options = {"host": "someone@127.0.0.1:1"}
    added = server.ask("POST", "/api/v1/backends", {"name": "lab", "kind": "ssh", "options": options})
    assert added.status == 201
    hosts = {host["backend"]: host for host in server.ask("GET", HOSTS).json["hosts"]}
    assert hosts["local"]["online"] is True
    assert hosts["lab"]["online"] is False
    assert hosts["lab"]["problem"]
    assert server.ask("DELETE", "/api/v1/backends/lab").status == 200


def test_another_organisation_does_not_see_the_servers_machine(server: Server) -> None:
    stranger = server.new_token(name="other", role="member", organisation="other", project="default")
    answer = server.ask("GET", HOSTS, token=stranger)
    assert (answer.status, answer.json) == (200, {"hosts": [], "waiting": 0})
