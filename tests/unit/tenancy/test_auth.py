"""Tokens, sessions and login links."""

import pytest
from tests.unit.tenancy.memory_tokens import MemoryTokens

from anygpu.errors import Forbidden, NotFound, Unauthorized
from anygpu.tenancy.auth import CACHE_S, Authenticator, Caller, Role, purpose_of
from anygpu.testing.samples.jobs import LAB, STRANGER

ADMIN = Caller(scope=LAB, role=Role.ADMIN, token_id="t")


class Clock:
    def __init__(self) -> None:
        self.now_s = 0.0

    def now_ms(self) -> int:
        return int(self.now_s * 1000)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens() -> MemoryTokens:
    return MemoryTokens()


@pytest.fixture
def authenticator(tokens: MemoryTokens, clock: Clock) -> Authenticator:
    return Authenticator(tokens, clock.now_ms)


async def admin(authenticator: Authenticator, life_s: float | None = None) -> Caller:
    _, token = await authenticator.create_token(LAB, Role.ADMIN, life_s=life_s)
    return await authenticator.caller_for_token(token)


async def log_in(authenticator: Authenticator, caller: Caller) -> str:
    return await authenticator.redeem_login_code(await authenticator.create_login_code(caller))


async def test_a_login_code_works_once_and_for_a_minute(authenticator: Authenticator, clock: Clock) -> None:
    caller = await admin(authenticator)
    code = await authenticator.create_login_code(caller)
    session = await authenticator.redeem_login_code(code)
    assert (await authenticator.caller_for_session(session)).by_cookie
    with pytest.raises(Unauthorized):
        await authenticator.redeem_login_code(code)
    late = await authenticator.create_login_code(caller)
    clock.now_s += 61
    with pytest.raises(Unauthorized):
        await authenticator.redeem_login_code(late)


async def test_a_token_expires(authenticator: Authenticator, clock: Clock) -> None:
    _, token = await authenticator.create_token(LAB, Role.MEMBER, life_s=10)
    assert (await authenticator.caller_for_token(token)).role is Role.MEMBER
    clock.now_s += 10
    with pytest.raises(Unauthorized):
        await authenticator.caller_for_token(token)
    assert await authenticator.list_tokens(LAB) == []


async def test_a_token_revoked_by_another_process_works_for_seconds_at_most(
    authenticator: Authenticator, tokens: MemoryTokens, clock: Clock
) -> None:
    record, token = await authenticator.create_token(LAB, Role.MEMBER)
    await authenticator.caller_for_token(token)
    await tokens.revoke(LAB, record.id)
    assert (await authenticator.caller_for_token(token)).token_id == record.id
    clock.now_s += CACHE_S
    with pytest.raises(Unauthorized):
        await authenticator.caller_for_token(token)


async def test_a_session_and_an_unused_link_end_with_their_token(authenticator: Authenticator) -> None:
    caller = await admin(authenticator)
    session = await log_in(authenticator, caller)
    second = await log_in(authenticator, await authenticator.caller_for_session(session))
    code = await authenticator.create_login_code(caller)
    await authenticator.revoke_token(caller, caller.token_id)
    for each in (session, second):
        with pytest.raises(Unauthorized):
            await authenticator.caller_for_session(each)
    with pytest.raises(Unauthorized):
        await authenticator.redeem_login_code(code)


async def test_a_session_expires_with_its_token(authenticator: Authenticator, clock: Clock) -> None:
    session = await log_in(authenticator, await admin(authenticator, life_s=100))
    clock.now_s = 99
    await authenticator.caller_for_session(session)
    clock.now_s = 99 + CACHE_S
    with pytest.raises(Unauthorized):
        await authenticator.caller_for_session(session)


async def test_a_session_of_an_older_server_is_refused(
    authenticator: Authenticator, tokens: MemoryTokens
) -> None:
    session, _ = await tokens.make(LAB, role="session:admin", at_ms=0)
    with pytest.raises(Unauthorized):
        await authenticator.caller_for_session(session)


async def test_a_lookup_during_a_revocation_does_not_keep_the_token(tokens: MemoryTokens) -> None:
    authenticator = Authenticator(tokens, lambda: 0)
    caller = await admin(authenticator)
    record, token = await authenticator.create_token(LAB, Role.MEMBER)
    tokens.after_look_up = lambda: authenticator.revoke_token(caller, record.id)
    await authenticator.caller_for_token(token)
    tokens.after_look_up = None
    with pytest.raises(Unauthorized):
        await authenticator.caller_for_token(token)


async def test_only_the_operator_revokes_every_token(authenticator: Authenticator) -> None:
    caller = await admin(authenticator)
    above, _ = await authenticator.create_token(LAB, Role.OPERATOR)
    elsewhere, _ = await authenticator.create_token(STRANGER, Role.MEMBER)
    with pytest.raises(Forbidden, match="needs the role operator"):
        await authenticator.revoke_token(caller, above.id)
    with pytest.raises(NotFound):
        await authenticator.revoke_token(caller, elsewhere.id)
    operator = Caller(scope=LAB, role=Role.OPERATOR, token_id="o")
    for each in (above.id, elsewhere.id, caller.token_id):
        await authenticator.revoke_token(operator, each)


async def test_login_links_are_not_listed(authenticator: Authenticator) -> None:
    await authenticator.create_login_code(ADMIN)
    record, _ = await authenticator.create_token(LAB, Role.VIEWER, label="laptop")
    assert [each.id for each in await authenticator.list_tokens(LAB)] == [record.id]
    assert str(purpose_of(record)) == "api"


def test_each_role_includes_those_after_it() -> None:
    assert Role.OPERATOR.includes(Role.VIEWER)
    assert not Role.MEMBER.includes(Role.ADMIN)
    assert [role for role in Role if role.can_write] == [Role.OPERATOR, Role.ADMIN, Role.MEMBER]
    with pytest.raises(Forbidden, match="needs the role operator"):
        ADMIN.require(Role.OPERATOR)
