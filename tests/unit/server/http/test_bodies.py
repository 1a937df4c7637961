"""Request bodies: a wrong one is refused with every problem at its place."""

from typing import Any

import pytest
from starlette.requests import Request

from anygpu.api.access import TokenRequest
from anygpu.api.backends import BackendRequest
from anygpu.errors import InvalidSpec
from anygpu.server.http.bodies import JsonResponse, parse_body, read_json, read_object
from anygpu.server.http.errors import MalformedRequest


def request_with(body: bytes) -> Request:
    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body}

    return Request({"type": "http", "method": "POST", "headers": []}, receive)


@pytest.mark.parametrize("body", [b"{", b"NaN", b'{"a": Infinity}', b"\xff", b"[" * 100_000])
async def test_a_body_that_is_not_json_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedRequest):
        await read_json(request_with(body))


async def test_an_empty_body_is_an_empty_object() -> None:
    assert await read_object(request_with(b" ")) == {}
    with pytest.raises(InvalidSpec, match="is not a JSON object"):
        await read_object(request_with(b"[]"))


@pytest.mark.parametrize(
    ("body", "place", "message"),
    [
        ({"nam": "x"}, "nam", "unknown key"),
        ({"name": 5}, "name", "should be a valid string"),
        ({"role": None}, "role", "should be a valid string"),
        ({"name": "x" * 201}, "name", "at most 200 characters"),
        ({"expires_s": "60"}, "expires_s", "should be a valid number"),
        ({"expires_s": True}, "expires_s", "should be a valid number"),
        ({"expires_s": 0}, "expires_s", "should be greater than 0"),
    ],
)
def test_a_wrong_field_is_named(body: dict[str, Any], place: str, message: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        parse_body(TokenRequest, body)
    (problem,) = refused.value.problems
    assert (problem.place, problem.source) == (place, "body")
    assert message in problem.message


def test_an_unknown_key_gets_the_known_ones_and_a_missing_one_is_required() -> None:
    with pytest.raises(InvalidSpec) as refused:
        parse_body(BackendRequest, {"name": "lab", "knd": "ssh"})
    problems = {problem.place: problem for problem in refused.value.problems}
    assert problems["kind"].message == "is required; add this field"
    assert problems["knd"].suggestion == "the valid keys are name, kind, options, credentials, replace"


def test_credentials_are_not_repeated_in_a_problem() -> None:
    with pytest.raises(InvalidSpec) as refused:
        parse_body(BackendRequest, {"name": "lab", "kind": "ssh", "credentials": ["hush"]})
    assert "hush" not in str(refused.value.details)


def test_numbers_that_json_lacks_become_strings() -> None:
    assert JsonResponse({"loss": float("nan")}).body == b'{"loss": "NaN"}'
