"""The request that would start a job is shown, by the server and by the command, and nothing is started."""

import pytest
from tests.acceptance.server.real_server import Server

SPEC = {"code": "print(1)", "name": "shown"}


def test_the_best_offer_is_shown_and_no_job_or_ticket_exists(server: Server) -> None:
    shown = server.ask("POST", "/api/v1/plan/native", {"spec": SPEC})
    assert shown.status == 200, shown.json
    assert shown.json["offer"]["backend"] == "local"
    ticket, process = shown.json["requests"]
    assert '"ticket": "(the one-time ticket of the attempt)"' in ticket["text"]
    assert (process["language"], "anygpu-00000000" in process["text"]) == ("sh", True)
    assert server.ask("GET", "/api/v1/training").json["jobs"] == []


@pytest.mark.parametrize("choice", [{"backend": "no-such"}, {"offer": "no-such"}, {"region": "no-such"}])
def test_an_offer_that_does_not_exist_is_named(server: Server, choice: dict[str, str]) -> None:
    refused = server.ask("POST", "/api/v1/plan/native", {"spec": SPEC, **choice})
    assert (refused.status, refused.json["code"]) == (422, "no_backend_fits")
    assert "no-such" in refused.json["detail"]


def test_a_viewer_may_not_see_it(server: Server) -> None:
    token = server.ask("POST", "/api/v1/tokens", {"name": "v", "role": "viewer"}).json["token"]
    assert server.ask("POST", "/api/v1/plan/native", {"spec": SPEC}, token=token).status == 403
