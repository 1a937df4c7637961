"""Search terms, id prefixes and page cursors."""

import pytest

from anygpu.errors import NotFound
from anygpu.store.journal import JobQuery
from anygpu.store.search import (
    MAX_TERM,
    decode_cursor,
    encode_cursor,
    make_term,
    normalize_id_prefix,
    query_groups,
    split_words,
    storable_text,
)


def test_a_query_is_one_group_per_filter_and_alternatives_share_a_group() -> None:
    query = JobQuery(status=("running", "queued", "running"), tag="night", text="Train NOW")
    assert query_groups(query) == [
        ("tag:night",),
        ("status:running", "status:queued"),
        ("word:train",),
        ("word:now",),
    ]


def test_words_are_lower_case_unique_and_of_limited_length() -> None:
    assert split_words("Train_v2 TRAIN " + "x" * 100) == ["train", "v2", "x" * 24]


def test_terms_are_storable_and_of_limited_length() -> None:
    assert storable_text("a\0b\ud800") == "a\ufffdb?"
    assert len(make_term("name", "x" * 1000)) == MAX_TERM


@pytest.mark.parametrize(
    ("typed", "stored"),
    [
        ("0198F3C2", "0198f3c2"),
        ("0198f3c200", "0198f3c2-00"),
        ("0198f3c2-0000-7000-8000-01", "0198f3c2-0000-7000-8000-01"),
        ("", ""),
        ("train", None),
        ("0" * 33, None),
    ],
)
def test_an_id_prefix_is_written_like_a_stored_id(typed: str, stored: str | None) -> None:
    assert normalize_id_prefix(typed) == stored


def test_a_cursor_returns_its_position() -> None:
    assert decode_cursor(encode_cursor(123_456)) == 123_456


@pytest.mark.parametrize("cursor", ["", "x", "ä", "MjoxMjM", "MTp4", encode_cursor(10**19)])
def test_a_cursor_of_another_origin_is_rejected_with_advice(cursor: str) -> None:
    with pytest.raises(NotFound, match="first page"):
        decode_cursor(cursor)
