"""The list of server addresses of an agent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from anygpu.agent.link.server_list import ServerList

A, B, C = "http://a:1", "http://b:1", "http://c:1"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "servers.json"


def test_the_next_address_is_used_after_a_failure(path: Path) -> None:
    servers = ServerList(str(path), [A, B, A])
    assert servers.url() == A
    servers.on_failure(A)
    servers.on_failure(A)
    assert servers.url() == B, "a second thread that failed at the first address does not skip another"
    servers.on_failure(B)
    assert servers.url() == A


def test_the_only_address_is_kept(path: Path) -> None:
    servers = ServerList(str(path), [A])
    servers.on_failure(A)
    assert servers.url() == A
    assert not servers.has_others


def test_a_new_list_does_not_leave_an_address_that_works(path: Path) -> None:
    servers = ServerList(str(path), [A])
    servers.update([B, C])
    assert servers.url() == A
    servers.on_failure(A)
    assert servers.url() == B
    servers.on_failure(B)
    servers.on_failure(C)
    assert servers.url() == A, "the address of the ticket is tried last"


def test_the_list_is_kept_in_a_file(path: Path) -> None:
    ServerList(str(path), [A]).update([B + "/", C])
    assert ServerList(str(path), [A]).url() == B
    assert json.loads(path.read_text()) == {"urls": [B, C]}


@pytest.mark.parametrize(
    "urls", [None, [], "http://x", {"a": 1}, [1, None, "ftp://x", "javascript:1", "http://" + "x" * 3000]]
)
def test_an_answer_without_a_usable_list_changes_nothing(path: Path, urls: object) -> None:
    servers = ServerList(str(path), [A])
    servers.update(urls)
    servers.on_failure(A)
    assert servers.url() == A
    assert not path.exists()


@pytest.mark.parametrize("content", ["", "[]", '{"urls": 7}', '{"urls": [7]}', "\x00"])
def test_a_damaged_file_is_ignored(path: Path, content: str) -> None:
    path.write_text(content)
    assert ServerList(str(path), [A]).url() == A


def test_one_server_alone_cannot_reject_the_agent(path: Path) -> None:
    servers = ServerList(str(path), [A, B])
    assert not servers.is_rejected_by_all(A)
    assert servers.is_rejected_by_all(B)
    servers.on_success(A)
    assert not servers.is_rejected_by_all(B)


def test_urls_of_every_server_have_the_same_path(path: Path) -> None:
    servers = ServerList(str(path), [A, B])
    assert servers.path_on_server(f"{B}/blobs/x?sig=1") == "/blobs/x?sig=1"
    assert servers.path_on_server("/blobs/x") == "/blobs/x"
    assert servers.path_on_server("http://a:10/blobs/x") is None
    assert servers.path_on_server("https://bucket/x") is None
