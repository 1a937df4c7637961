"""Tokens, sessions and login links."""

import pytest
from tests.unit.tenancy.memory_tokens import MemoryTokens

from anygpu.errors import Forbidden, Unauthorized
from anygpu.tenancy.auth import CACHE_S, Authenticator, Caller, Role, purpose_of
from anygpu.testing.samples.jobs import LAB

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


async def test_a_login_code_works_once_and_for_a_minute(authenticator: Authenticator, clock: Clock) -> None:
    code = await authenticator.create_login_code(ADMIN)
    session = await authenticator.redeem_login_code(code)
    assert (await authenticator.caller_for_session(session)).by_cookie
    with pytest.raises(Unauthorized):
        await authenticator.redeem_login_code(code)
    late = await authenticator.create_login_code(ADMIN)
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


async def test_login_links_are_not_listed(authenticator: Authenticator) -> None:
    await authenticator.create_login_code(ADMIN)
    record, _ = await authenticator.create_token(LAB, Role.VIEWER, label="laptop")
    assert [each.id for each in await authenticator.list_tokens(LAB)] == [record.id]
    assert str(purpose_of(record)) == "api"


def test_each_role_includes_those_after_it() -> None:
    assert Role.OPERATOR.includes(Role.VIEWER)
    assert not Role.MEMBER.includes(Role.ADMIN)
    assert [role for role in Role if role.can_write] == [Role.OPERATOR, Role.ADMIN, Role.MEMBER]
    with pytest.raises(Forbidden, match="requires the role operator"):
        ADMIN.require(Role.OPERATOR)
