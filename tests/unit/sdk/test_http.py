import json

import pytest

from anygpu import errors
from anygpu.errors import ServerUnreachable
from anygpu.sdk.http import Endpoint, ServerConnection, error_from_response


class Found:
    """Says where the server is, as often as told; from then on there is none."""

    def __init__(self, *urls: str) -> None:
        self.urls = [*urls]
        self.asked = 0

    def __call__(self) -> Endpoint:
        self.asked += 1
        if not self.urls:
            raise ServerUnreachable("No anygpu server is running on this computer.")
        return Endpoint(self.urls.pop(0), "token")


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    waited: list[float] = []
    monkeypatch.setattr("anygpu.sdk.http.time.sleep", waited.append)
    return waited


def test_without_a_server_requests_fail_immediately(waits: list[float]) -> None:
    locate = Found()
    with pytest.raises(ServerUnreachable):
        ServerConnection(locate).request("GET", "/api/v1/training")
    assert (locate.asked, waits) == (1, [])


def test_a_lost_server_is_located_again(waits: list[float]) -> None:
    locate = Found("no address")
    with pytest.raises(ServerUnreachable):
        ServerConnection(locate).request("GET", "/api/v1/training")
    assert (locate.asked, len(waits)) == (5, 4)


PROBLEM = "application/problem+json"


def body(**parts: object) -> bytes:
    return json.dumps(parts).encode()


@pytest.mark.parametrize("kind", [kind for kind in errors.every_error() if kind is not errors.InvalidSpec])
def test_every_error_comes_back_as_the_class_its_code_names(kind: type[errors.AnygpuError]) -> None:
    if kind.__module__ != "anygpu.errors":
        return
    error = error_from_response(500, PROBLEM, body(code=kind.code, detail="what", hint="do this"))
    assert type(error) is kind
    assert (error.message, error.hint) == ("what", "do this")


def test_an_invalid_spec_keeps_each_problem() -> None:
    listed = [
        {"place": "resources.gpus", "value": 2, "message": "unknown key", "suggestion": "did you mean 'gpu'?"}
    ]
    error = error_from_response(422, PROBLEM, body(code="invalid_spec", problems=listed))
    assert isinstance(error, errors.InvalidSpec)
    assert str(error.problems[0]) == "resources.gpus: unknown key; did you mean 'gpu'?"


def test_more_fields_of_a_problem_become_details() -> None:
    error = error_from_response(409, PROBLEM, body(code="gap", detail="missing", expected=5))
    assert error.details == {"expected": 5}


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, errors.Unauthorized),
        (404, errors.NotFound),
        (413, errors.TooLarge),
        (429, errors.RateLimited),
        (502, errors.ServerUnreachable),
        (503, errors.ServerUnreachable),
        (504, errors.ServerUnreachable),
    ],
)
def test_a_response_without_problem_document_is_classified_by_status(
    status: int, kind: type[errors.AnygpuError]
) -> None:
    assert type(error_from_response(status, "text/html", b"<h1>no</h1>")) is kind


def test_an_unknown_error_is_internal() -> None:
    error = error_from_response(500, PROBLEM, b"{broken")
    assert isinstance(error, errors.Internal)
    assert "bug" in str(error)


@pytest.mark.parametrize(("place", "source"), [("role", "body"), ("path.role", "")])
def test_problems_do_not_mention_the_http_body_or_path(place: str, source: str) -> None:
    listed = [{"place": place, "value": "boss", "message": "unknown role", "source": source}]
    error = error_from_response(422, PROBLEM, body(code="invalid_spec", problems=listed))
    assert str(error) == "role: unknown role"
