"""Names in Host and Origin headers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anygpu.server.http.origins import Host, Origin, parse_host, parse_origin


def test_a_host_has_a_name_and_maybe_a_port() -> None:
    assert [parse_host(text) for text in ("A:1", "[::1]:2", "a.")] == [
        Host("a", 1),
        Host("[::1]", 2),
        Host("a", None),
    ]


@pytest.mark.parametrize(
    "text", ["", "[", "]", "[::1", "a b", "a/b", "me@a", "a:b", "a:65536", "a:1:2", "a\\b"]
)
def test_text_that_is_no_host_is_refused(text: str) -> None:
    assert parse_host(text) is None


def test_the_port_of_an_origin_is_that_of_its_scheme() -> None:
    assert parse_origin("https://A") == parse_origin("https://a:443") == Origin("https", "a", 443)
    assert parse_origin("http://a") != parse_origin("https://a")


@pytest.mark.parametrize(
    "text", ["null", "http://[", "http:/a", "ftp://a", "http://a/", "http://a?b", "http://"]
)
def test_text_that_is_no_origin_is_refused(text: str) -> None:
    assert parse_origin(text) is None


@given(st.text())
def test_no_text_raises(text: str) -> None:
    parse_host(text)
    parse_origin(text)
    parse_origin(f"http://{text}")
