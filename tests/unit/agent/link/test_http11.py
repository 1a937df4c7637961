"""URLs and responses of the small HTTP client."""

import io

import pytest

from anygpu.agent.link.http11 import HttpUrl, StreamedResponse, Unreachable


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("http://host/a?b=1#c", ("host", 80, "/a?b=1", False)),
        ("https://host", ("host", 443, "", True)),
        ("http://127.0.0.1:8080/x", ("127.0.0.1", 8080, "/x", False)),
        ("http://[::1]:90/x", ("::1", 90, "/x", False)),
        ("https://user@host:1/", ("host", 1, "/", True)),
    ],
)
def test_a_url_is_split(url: str, parts: tuple[str, int, str, bool]) -> None:
    split = HttpUrl(url)
    assert (split.host, split.port, split.target, split.tls) == parts


def test_another_scheme_is_refused_without_its_query() -> None:
    with pytest.raises(ValueError, match="'ftp://host/x' is not an address that can be downloaded"):
        HttpUrl("ftp://host/x?signature=secret")


@pytest.mark.parametrize(
    ("headers", "wire", "body"),
    [
        ({"content-length": "3"}, b"abcrest", b"abc"),
        ({"transfer-encoding": "chunked"}, b"3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n", b"abcde"),
        ({}, b"until the end", b"until the end"),
    ],
)
def test_a_body_is_read_by_length_by_chunks_or_to_the_end(
    headers: dict[str, str], wire: bytes, body: bytes
) -> None:
    assert StreamedResponse(200, headers, io.BytesIO(wire)).body() == body


@pytest.mark.parametrize(
    ("headers", "wire"),
    [
        ({"content-length": "9"}, b"abc"),
        ({"transfer-encoding": "chunked"}, b"9\r\nabc"),
        ({"transfer-encoding": "chunked"}, b""),
    ],
)
def test_an_incomplete_body_is_an_error(headers: dict[str, str], wire: bytes) -> None:
    with pytest.raises(Unreachable, match="the connection was lost"):
        StreamedResponse(200, headers, io.BytesIO(wire)).body()


def test_a_response_without_content_has_no_body() -> None:
    assert StreamedResponse(204, {}, io.BytesIO(b"the next response")).body() == b""
