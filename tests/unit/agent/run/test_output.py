"""Masking of secrets in a stream of bytes."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from anygpu.agent.run.output import SecretMask

TEXT = st.text("abcx-", max_size=30).map(str.encode)


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(marks)]


@given(TEXT, TEXT, st.lists(st.integers(0, 100), max_size=8), st.sets(st.integers(0, 9)))
@example(b"", b"", [2, 4], {0, 1, 2, 3})
@example(b"a", b"c", [3], {0})
def test_a_secret_is_masked_however_the_stream_is_split(
    before: bytes, after: bytes, places: list[int], rests: set[int]
) -> None:
    secret = b"S3cr3t-Value"
    mask = SecretMask([secret.decode()])
    out = b""
    for number, part in enumerate(cut(before + secret + after, places)):
        out += mask.feed(part)
        out += mask.release_short() if number in rests else b""
    out += mask.close()
    assert secret[:4] not in out
    assert secret[4:] not in out
    assert re.sub(rb"(S|S3|S3c)?\*\*\*", b"", out) == before + after


@given(st.lists(TEXT, max_size=6))
def test_output_without_secrets_is_not_changed(parts: list[bytes]) -> None:
    mask = SecretMask(["Q" * 20])
    assert b"".join(map(mask.feed, parts)) + mask.close() == b"".join(parts)


def test_a_possible_beginning_of_a_secret_is_held_back() -> None:
    mask = SecretMask(["password1"])
    assert mask.feed(b"my passw") == b"my "
    assert mask.release_short() == b"", "five bytes of a secret say too much"
    assert mask.feed(b"ay") == b"passway"


def test_a_short_held_tail_is_released_and_the_rest_still_masked() -> None:
    mask = SecretMask(["sk-0123456789"])
    assert mask.feed(b"> sk-") == b"> "
    assert mask.release_short() == b"sk-"
    assert mask.feed(b"0123456789!") == b"***!"


def test_the_beginning_of_a_secret_at_the_end_of_the_stream_is_masked() -> None:
    mask = SecretMask(["sk-0123456789"])
    assert mask.feed(b"ends in sk-0123") + mask.close() == b"ends in ***"


def test_a_secret_that_begins_another_hides_the_longer_one_whole() -> None:
    mask = SecretMask(["abcd", "abcdefgh"])
    assert mask.feed(b"x abcd") + mask.feed(b"efgh y") + mask.close() == b"x *** y"


def test_each_line_of_a_key_with_many_lines_is_masked() -> None:
    mask = SecretMask(["-----BEGIN-----\nMIIEpAIB\n-----END-----"])
    assert mask.feed(b"got MIIEpAIB here\n") == b"got *** here\n"


def test_a_value_of_three_bytes_is_not_masked() -> None:
    assert SecretMask(["abc"]).feed(b"abc abc") == b"abc abc"
