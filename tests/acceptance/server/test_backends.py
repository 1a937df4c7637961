"""Backends configured while the server runs: used at once, seen by their own organisation, credentials never shown."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.server.plugin_backend import install
from tests.acceptance.server.real_server import Answer, Server
from tests.walk import content_of, paths_below

KEY = "right"
SETTINGS = """
[backends.lab]
kind = "plugged"
cpus = 1
api_key = "right"
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    (folder / "plugin").mkdir()
    config = folder / "config.toml"
    config.write_text(SETTINGS)
    made = Server(folder, PYTHONPATH=str(install(folder / "plugin")), ANYGPU_CONFIG=str(config))
    yield made
    made.cancel_everything()
    made.stop()


def add(server: Server, name: str, *, token: str = "", **more: Any) -> Answer:
    wanted = {"name": name, "kind": "plugged", "credentials": {"api_key": KEY}, **more}
    return server.ask("POST", "/api/v1/backends", wanted, token=token)


def listed(server: Server, *, token: str = "") -> dict[str, dict[str, Any]]:
    found = server.ask("GET", "/api/v1/backends", token=token).json["backends"]
    return {each["name"]: each for each in found}


def test_a_job_runs_on_a_backend_that_was_just_added(server: Server) -> None:
    assert add(server, "fresh").status == 201
    job_id = server.submit(command=["python", "-c", "print('there')"], placement={"allowed": ["fresh"]})
    job = server.wait_ended(job_id)
    assert (job["status"], job["backend"]) == ("completed", "fresh")
    assert server.ask("DELETE", "/api/v1/backends/fresh").json["jobs"] == []
    assert "fresh" not in listed(server)


def test_credentials_are_never_shown(server: Server) -> None:
    said = add(server, "hush", credentials={"api_key": "very-secret-key"})
    everything = [said.data, server.ask("GET", "/api/v1/backends").data]
    everything.append(server.ask("POST", "/api/v1/backends/hush/check").data)
    everything.append(server.error_log.encode())
    everything += [content_of(path) for path in paths_below(server.state) if path.is_file()]
    assert not any(b"very-secret-key" in each for each in everything)
    assert listed(server)["hush"]["credentials"] == "vault"
    assert listed(server)["hush"]["credential_names"] == ["api_key"]


def test_a_check_reports_what_the_provider_answers(server: Server) -> None:
    add(server, "checked")
    found = server.ask("POST", "/api/v1/backends/checked/check").json
    assert (found["valid"], found["why"], found["quota"]) == (True, "hello", "8 GPUs")
    assert (found["balance_microusd"], found["offers"], found["refused"]) == (12_340_000, 2, 1)
    assert found["cheapest_gpu"]["gpu"] == "H100"
    add(server, "checked", credentials={"api_key": "wrong"}, replace=True)
    found = server.ask("POST", "/api/v1/backends/checked/check").json
    assert (found["valid"], found["why"]) == (False, "the key is wrong")


def test_the_last_errors_of_a_backend_are_shown_to_everyone_until_it_is_changed(server: Server) -> None:
    add(server, "ill", credentials={"api_key": "wrong"})
    assert listed(server)["ill"]["health"] == {
        "answered_at": None,
        "checked_at": None,
        "check": None,
        "problems": [],
    }
    assert server.ask("POST", "/api/v1/plan", {"command": ["true"]}).status == 200
    (problem,) = listed(server)["ill"]["health"]["problems"]
    assert (problem["request"], problem["message"]) == ("account", "the key is wrong")
    assert problem["at"].endswith("Z")
    add(server, "ill", replace=True)
    server.ask("POST", "/api/v1/backends/ill/check")
    viewer = server.new_token(role="viewer", name="looks at backends")
    health = listed(server, token=viewer)["ill"]["health"]
    assert (health["problems"], health["check"]["offers"]) == ([], 2)
    assert health["checked_at"] == health["answered_at"]


def test_the_error_of_the_last_launch_is_shown(server: Server) -> None:
    add(server, "full", options={"endpoint": "full"})
    job_id = server.submit(command=["true"], placement={"allowed": ["full"]})
    server.wait(job_id, lambda job: bool(listed(server)["full"]["health"]["problems"]))
    health = listed(server)["full"]["health"]
    assert [(each["request"], each["message"]) for each in health["problems"]] == [
        ("launch", "every machine is in use")
    ]
    assert health["answered_at"] is not None
    server.ask("POST", f"/api/v1/training/{job_id}/cancel")
    server.wait_ended(job_id)
    server.ask("DELETE", "/api/v1/backends/full")


def test_all_offers_of_a_cloud_are_one_slot_of_the_queue(server: Server) -> None:
    add(server, "wide")
    slots = server.ask("GET", "/api/v1/queue").json["slots"]
    names = [slot["name"] for slot in slots if slot["backend"] == "wide"]
    assert names == ["vm", "huge", "1 offer from $2.50/h"]


def test_the_api_does_not_remove_a_backend_of_the_settings_file(server: Server) -> None:
    lab = listed(server)["lab"]
    assert (lab["source"], lab["credentials"], lab["state"]) == ("settings", "settings", "open")
    assert lab["options"] == {"cpus": 1}
    refused = server.ask("DELETE", "/api/v1/backends/lab")
    assert (refused.status, "file" in refused.json["hint"]) == (409, True)


def test_another_organisation_sees_and_uses_only_its_own(server: Server) -> None:
    stranger = server.new_token(organisation="elsewhere", role="admin", name="stranger")
    add(server, "ours")
    assert set(listed(server, token=stranger)) == set()
    assert server.ask("POST", "/api/v1/backends/ours/check", token=stranger).status == 404
    assert server.ask("DELETE", "/api/v1/backends/ours", token=stranger).status == 404
    assert server.ask("GET", "/api/v1/queue", token=stranger).json["slots"] == []
    assert add(server, "theirs", token=stranger).status == 201
    assert "theirs" not in listed(server)
    wanted = {"command": ["true"], "placement": {"allowed": ["ours"]}}
    refused = server.ask("POST", "/api/v1/training", wanted, token=stranger)
    assert (refused.status, refused.json["code"]) == (422, "no_backend_fits")
    assert "theirs" in refused.json["hint"]


def test_only_administrators_change_backends(server: Server) -> None:
    member = server.new_token(role="member", name="member")
    assert add(server, "mine", token=member).status == 403
    assert "lab" in listed(server, token=member)
    admin = server.new_token(role="admin", name="admin")
    assert add(server, "mine", token=admin, credentials={}).json["code"] == "forbidden"
    assert add(server, "mine", token=admin).status == 201
    assert server.ask("DELETE", "/api/v1/backends/mine", token=member).status == 403
    assert server.ask("DELETE", "/api/v1/backends/mine", token=admin).status == 200


@pytest.mark.parametrize(
    ("kind", "options", "credentials"),
    [
        ("slurm", {}, {"private_key": "k"}),  # its commands would run on the server's machine
        ("slurm", {"host": "login", "identity": "/home/lab/.ssh/id_ed25519"}, {"private_key": "k"}),
        ("kubernetes", {}, {}),
        ("kubernetes", {"kubeconfig_path": "/etc/kubeconfig"}, {}),
        ("celery", {"broker": "rediss://h:1/0", "ca_file": "/dev/zero"}, {"password": "p"}),
        ("ray", {"address": "https://h:1", "ca_file": "/dev/zero"}, {"token": "t"}),
    ],
)
def test_an_administrator_cannot_use_the_servers_machine_files_or_credentials(
    server: Server, kind: str, options: dict[str, str], credentials: dict[str, str]
) -> None:
    admin = server.new_token(role="admin", name="admin")
    wanted = {"name": "mine", "kind": kind, "options": options, "credentials": credentials}
    refused = server.ask("POST", "/api/v1/backends", wanted, token=admin)
    assert (refused.status, refused.json["code"]) == (403, "forbidden"), refused.json
    assert "operator of the server" in refused.json["detail"]


def test_a_backend_with_a_running_job_is_removed_only_by_force(
    server: Server,
) -> None:
    add(server, "busy")
    job_id = server.submit(
        command=["python", "-c", "import time; time.sleep(60)"], name="long", placement={"allowed": ["busy"]}
    )
    server.wait(job_id, lambda job: job["phase"] == "training")
    refused = server.ask("DELETE", "/api/v1/backends/busy")
    assert (refused.status, refused.json["jobs"]) == (409, [job_id])
    assert "long" in refused.json["detail"]
    assert server.ask("DELETE", "/api/v1/backends/busy?force=true").json["jobs"] == [job_id]
    assert add(server, "busy").status == 201  # whoever adds it again can end what runs there
    server.ask("POST", f"/api/v1/training/{job_id}/cancel")
    assert server.wait_ended(job_id)["status"] == "cancelled"


def test_a_restarted_server_has_all_backends(server: Server) -> None:
    add(server, "kept", options={"cpus": 3})
    server.stop()
    server.start()
    end = time.monotonic() + 60
    while listed(server)["kept"]["state"] != "open" and time.monotonic() < end:
        time.sleep(0.02)
    kept = listed(server)["kept"]
    assert (kept["state"], kept["options"]) == ("open", {"cpus": 3})
    assert server.ask("POST", "/api/v1/backends/kept/check").json["valid"]


def test_kinds_list_their_options(server: Server) -> None:
    kinds = {kind["name"]: kind for kind in server.ask("GET", "/api/v1/backends/kinds").json["kinds"]}
    assert {"plugged", "lambda", "runpod"} <= set(kinds)
    options = {option["name"]: option for option in kinds["plugged"]["options"]}
    assert options["api_key"]["secret"]
    assert options["cpus"] == {
        "name": "cpus",
        "type": "a whole number",
        "default": 2,
        "required": False,
        "secret": False,
        "about": "how many jobs at once",
        "choices": [],
    }


def test_an_invalid_backend_in_the_settings_file_prevents_the_start(tmp_path: Path) -> None:
    (tmp_path / "plugin").mkdir()
    config = tmp_path / "config.toml"
    config.write_text("[backends.lab]\nkind = 'plugged'\ncpu = 1")
    with pytest.raises(AssertionError, match=r"backends\.lab\.cpu: unknown option; did you mean 'cpus'"):
        Server(tmp_path, PYTHONPATH=str(install(tmp_path / "plugin")), ANYGPU_CONFIG=str(config))
