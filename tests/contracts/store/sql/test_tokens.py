"""API tokens."""

import pytest

from anygpu.errors import NotFound
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.statements import fetch_all
from anygpu.store.sql.tokens import Tokens
from anygpu.testing.samples.jobs import LAB, STRANGER


async def test_a_token_gives_access_to_its_scope_until_revoked(database: Database) -> None:
    tokens = Tokens(database)
    text, made = await tokens.make(LAB, role="member", label="laptop", at_ms=5)
    found = await tokens.look_up(text, at_ms=6)
    assert found == made
    assert (made.scope, made.role, made.label) == (LAB, "member", "laptop")
    assert [token.used_at_ms for token in await tokens.list(LAB)] == [6]
    with pytest.raises(NotFound):
        await tokens.revoke(STRANGER, made.id)
    assert not await tokens.list(STRANGER)
    await tokens.revoke(LAB, made.id)
    assert await tokens.look_up(text, at_ms=7) is None


async def test_tokens_expire_and_are_never_stored_themselves(database: Database) -> None:
    tokens = Tokens(database)
    text, _ = await tokens.make(LAB, role="admin", at_ms=0, expires_at_ms=100)
    assert await tokens.look_up(text, at_ms=99) is not None
    assert await tokens.look_up(text, at_ms=100) is None
    assert await tokens.look_up(text + "x", at_ms=1) is None
    assert [await tokens.delete_expired(at_ms=at_ms) for at_ms in (99, 100, 100)] == [0, 1, 0]
    text, _ = await tokens.make(LAB, role="admin", at_ms=0)
    stored = await database.read(lambda connection: fetch_all(connection, "SELECT * FROM tokens"))
    assert text not in repr(stored)


async def test_storing_a_given_token_twice_is_one_token(database: Database) -> None:
    tokens = Tokens(database)
    for _ in range(2):
        assert (await tokens.make(LAB, role="admin", at_ms=1, token="given"))[0] == "given"
    assert len(await tokens.list(LAB)) == 1


async def test_a_session_is_valid_as_long_as_its_token(database: Database) -> None:
    tokens = Tokens(database)
    _, parent = await tokens.make(LAB, role="admin", at_ms=0, expires_at_ms=100)
    session, made = await tokens.make(LAB, role="session:admin", at_ms=0, expires_at_ms=500, parent=parent.id)
    found = await tokens.look_up(session, at_ms=99)
    assert found is not None
    assert (found.parent, found.expires_at_ms) == (parent.id, 100)
    assert await tokens.look_up(session, at_ms=100) is None
    assert await tokens.valid_ids([parent.id, made.id, "other"], at_ms=99) == {parent.id, made.id}
    assert await tokens.valid_ids([parent.id, made.id], at_ms=100) == set()
    await tokens.revoke(LAB, parent.id)
    assert await tokens.look_up(session, at_ms=1) is None
    assert list(await tokens.list(LAB)) == []


async def test_a_session_without_its_token_is_not_valid(database: Database) -> None:
    tokens = Tokens(database)
    session, made = await tokens.make(LAB, role="session:admin", at_ms=0, parent="gone")
    assert await tokens.look_up(session, at_ms=1) is None
    assert await tokens.valid_ids([made.id], at_ms=1) == set()
    assert (await tokens.get(made.id)).parent == "gone"
    with pytest.raises(NotFound):
        await tokens.get("gone")
