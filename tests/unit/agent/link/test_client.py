"""Refusals of the server."""

from __future__ import annotations

import pytest

from anygpu.agent.link.client import RequestRefused


@pytest.mark.parametrize(
    ("status", "code", "passes", "nobody"),
    [
        (503, "", True, False),
        (429, "", True, False),
        (401, "unauthorized", False, True),
        (404, "not_found", False, True),
        (401, "", False, False),
        (404, "", False, False),
        (409, "superseded", False, True),
        (409, "gap", False, False),
        (422, "", False, False),
    ],
)
def test_a_refusal_knows_whether_a_retry_helps(status: int, code: str, passes: bool, nobody: bool) -> None:
    refusal = RequestRefused(status, {"code": code})
    assert (refusal.is_transient, refusal.is_rejection) == (passes, nobody)
