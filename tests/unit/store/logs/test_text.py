"""The text of a line is what a terminal would show last."""

import pytest

from anygpu.store.logs.text import MAX_TEXT_BYTES, searchable, shown_text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain", "plain"),
        (b"", ""),
        (b" 10%\r 50%\r100%", "100%"),
        (b"100%\r", "100%"),
        (b"100%\r   \r", "100%"),
        (b"\x1b[31mred\x1b[0m", "\x1b[31mred\x1b[0m"),
        (b"caf\xe9", "caf\ufffd"),
    ],
)
def test_a_line_shows_its_last_text_after_a_carriage_return(data: bytes, text: str) -> None:
    assert shown_text(data) == (text, None)


def test_a_long_text_is_cut_between_characters_and_the_rest_can_be_read() -> None:
    data = "é".encode() * MAX_TEXT_BYTES
    text, cut = shown_text(b"x" + data)
    assert cut is not None
    assert text == "x" + "é" * ((cut - 1) // 2)
    assert MAX_TEXT_BYTES - 4 < cut <= MAX_TEXT_BYTES
    rest, _ = shown_text((b"x" + data)[cut:])
    assert rest.startswith("é")


def test_a_search_sees_no_control_sequences_and_no_overwritten_text() -> None:
    block = b"\x1b]0;title\x07\x1b[1mloss\x1b[0m 0.5\nold\rnew\nlast\r\n"
    assert searchable(block) == b"loss 0.5\nnew\nlast\r\n"
    assert searchable(block).count(b"\n") == block.count(b"\n")
