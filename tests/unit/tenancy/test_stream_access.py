"""Streams end with the token that opened them."""

import pytest
from tests.unit.tenancy.memory_tokens import MemoryTokens

from anygpu.errors import Unauthorized
from anygpu.tenancy.stream_access import StreamAccess, StreamAccessWatch
from anygpu.testing.samples.jobs import LAB


def watch_of(tokens: MemoryTokens) -> StreamAccessWatch:
    return StreamAccessWatch(tokens, lambda: 50, lambda message, error: None)


def has_ended(access: StreamAccess) -> bool:
    try:
        access.require()
    except Unauthorized:
        return True
    return False


async def test_a_revocation_ends_the_streams_of_the_token_and_of_its_sessions() -> None:
    watch = watch_of(MemoryTokens())
    own, session, other = watch.open("a", None), watch.open("s", "a"), watch.open("b", None)
    woken: list[str] = []
    own.call_at_end(lambda: woken.append("own"))
    watch.on_revoked("a")
    assert [has_ended(each) for each in (own, session, other)] == [True, True, False]
    assert woken == ["own"]


async def test_a_check_ends_the_streams_of_tokens_that_are_no_longer_stored() -> None:
    tokens = MemoryTokens()
    _, kept = await tokens.make(LAB, role="member", at_ms=0)
    _, session = await tokens.make(LAB, role="session:member", at_ms=0, parent=kept.id)
    watch = watch_of(tokens)
    await watch.check()
    valid, gone = watch.open(kept.id, None), watch.open("gone", None)
    of_session = watch.open(session.id, kept.id)
    await watch.check()
    assert [has_ended(each) for each in (valid, gone, of_session)] == [False, True, False]
    await tokens.revoke(LAB, kept.id)
    await watch.check()
    assert [has_ended(each) for each in (valid, of_session)] == [True, True]


def test_access_that_has_ended_raises() -> None:
    access = StreamAccess()
    access.require()
    access.end()
    with pytest.raises(Unauthorized, match="revoked or has expired"):
        access.require()
