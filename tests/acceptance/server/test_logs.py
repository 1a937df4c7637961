"""Logs by line, and the search in a log."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

import pytest
from tests.acceptance.server.real_server import Server

Get = Callable[..., dict[str, Any]]
CODE = r"""
import sys
for number in range(1, 3001):
    sys.stdout.write(f"step {number} loss={1 / number:.4f}\n")
for percent in range(0, 101):
    sys.stdout.write(f"\r{percent}%")
sys.stdout.write("\n\x1b[31mERR\x1b[1mOR\x1b[0m <b>bold</b>\n")
sys.stdout.flush()
sys.stdout.buffer.write(b"\xff" + b"z" * 20000 + b"\nno line end")
"""


@pytest.fixture(scope="module")
def job(server: Server) -> str:
    job_id: str = server.submit(code=CODE, name="talkative")
    assert server.wait_ended(job_id)["status"] == "completed"
    return job_id


@pytest.fixture
def get(server: Server, job: str) -> Get:
    def ask(what: str, **query: object) -> dict[str, Any]:
        answer = server.ask("GET", f"/api/v1/training/{job}/logs/{what}?{urlencode(query)}")
        assert answer.status == 200, answer.data
        found: dict[str, Any] = answer.json
        return found

    return ask


def test_a_page_has_numbered_lines_and_totals(get: Get) -> None:
    page = get("lines", **{"from": 2999, "count": 3})
    assert (page["attempt"], page["total_lines"], page["complete"]) == (1, 3004, True)
    assert [(line["number"], line["text"]) for line in page["lines"]] == [
        (2999, "step 2999 loss=0.0003"),
        (3000, "step 3000 loss=0.0003"),
        (3001, "100%"),
    ]
    assert page["lines"][0]["at"].startswith("20")
    assert get("lines", **{"from": 9999})["lines"] == []


def test_the_tail_comes_with_colours_and_cut_lines(server: Server, job: str, get: Get) -> None:
    page = get("lines", **{"from": -3})
    error, long, last = page["lines"]
    assert error["text"] == "\x1b[31mERR\x1b[1mOR\x1b[0m <b>bold</b>"
    assert long["text"].startswith("\ufffdzz")
    rest = server.ask("GET", f"/api/v1/training/{job}/logs?offset={long['rest']}").data
    assert len(long["text"]) + rest.index(b"\n") == 20_001
    assert (last["text"], last["rest"]) == ("no line end", None)
    assert last["offset"] == page["unfinished_from"] == page["total_bytes"] - len("no line end")


def test_the_whole_log_is_downloaded_as_a_file(server: Server, job: str) -> None:
    answer = server.ask("GET", f"/api/v1/training/{job}/logs/file")
    assert answer.data == server.ask("GET", f"/api/v1/training/{job}/logs").data
    assert answer.headers["content-disposition"] == 'attachment; filename="talkative-attempt-1.log"'
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_search_gives_numbers_and_a_total(get: Get) -> None:
    found = get("search", q="STEP 29", limit=2)
    assert [hit["number"] for hit in found["hits"]] == [29, 290]
    assert (found["total"], found["truncated"], found["next"]) == (111, False, 290)
    more = get("search", q="step 29", after=290, limit=500)
    assert (len(more["hits"]), more["total"], more["next"]) == (109, 109, None)
    newest = get("search", q=r"^step \d+ ", regex="true", before=3001, limit=1, text="false", count="false")
    assert [(hit["number"], hit["text"]) for hit in newest["hits"]] == [(3000, "")]
    assert get("search", q="error <b>")["hits"][0]["number"] == 3002
    assert get("search", q="error", case="true")["hits"] == []
    assert get("search", q="50%")["total"] == 0


@pytest.mark.parametrize(
    "query",
    ["", "q=", "q=(&regex=true", "q=a&after=1&before=2", "q=a&limit=0", "q=a&attempt=7", f"q={'a' * 1001}"],
)
def test_a_wrong_search_is_refused_with_a_reason(server: Server, job: str, query: str) -> None:
    answer = server.ask("GET", f"/api/v1/training/{job}/logs/search?{query}")
    assert answer.status in (404, 422), answer.data
    assert answer.json["title"]


def test_a_job_without_output_has_no_lines(server: Server) -> None:
    job_id = server.submit(code="pass", name="silent")
    server.wait_ended(job_id)
    page = server.ask("GET", f"/api/v1/training/{job_id}/logs/lines?from=-10").json
    assert (page["lines"], page["total_lines"]) == ([], 0)
    assert server.ask("GET", f"/api/v1/training/{job_id}/logs/search?q=x").json["hits"] == []
