"""Who is asking, and what they may do. Tokens, browser sessions and login links are one kind of thing: a secret
whose hash is stored, with an owner, a role and an end."""

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from anygpu.errors import Forbidden, NotFound, Unauthorized
from anygpu.store.scope import Scope

REMEMBER_S = 5.0  # a token revoked by another server process works this long at most
REMEMBERED = 10_000
LINK_S = 60.0
SESSION_S = 7 * 86400.0


class Role(StrEnum):
    """What a token allows in its project."""

    ADMIN = "admin"  # everything, tokens and retention included
    MEMBER = "member"  # submit, cancel, read
    VIEWER = "viewer"  # read

    @property
    def may_change(self) -> bool:
        return self is not Role.VIEWER


class Purpose(StrEnum):
    """What a secret is for; it works for nothing else."""

    API = "api"
    LINK = "link"
    SESSION = "session"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenRecord:
    """All that is stored of a token: never the token itself."""

    id: str
    scope: Scope
    role: Role
    purpose: Purpose
    name: str
    created_at_ms: int
    expires_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Whoever made this request."""

    scope: Scope
    role: Role
    token_id: str
    by_cookie: bool = False

    def require(self, role: Role) -> None:
        if self.role is not role:
            raise Forbidden(f"this needs the role {role}; yours is {self.role}")


class TokenStore(Protocol):
    """Where records of tokens are kept, by the hash of the token."""

    async def add(self, sha256: str, record: TokenRecord) -> None: ...

    async def find(self, sha256: str) -> TokenRecord | None: ...

    async def of(self, organisation: str) -> Sequence[TokenRecord]: ...

    async def remove(self, organisation: str, token_id: str) -> bool:
        """Whether it was there: of two that remove the same one, one is told so."""
        ...


class Access:
    """Gives out tokens and knows them again."""

    def __init__(self, store: TokenStore, now_ms: Callable[[], int]) -> None:
        self._store = store
        self._now_ms = now_ms
        self._known: dict[str, tuple[int, TokenRecord]] = {}

    async def by_token(self, token: str) -> Caller:
        record = await self._record(token, Purpose.API)
        return Caller(scope=record.scope, role=record.role, token_id=record.id)

    async def by_session(self, session: str) -> Caller:
        record = await self._record(session, Purpose.SESSION)
        return Caller(scope=record.scope, role=record.role, token_id=record.id, by_cookie=True)

    async def create(
        self,
        scope: Scope,
        role: Role,
        *,
        name: str = "",
        life_s: float | None = None,
        token: str | None = None,
    ) -> tuple[TokenRecord, str]:
        """A new token. It is shown this once; the store has only its hash."""
        return await self._give(scope, role, Purpose.API, name, life_s, token)

    async def link(self, caller: Caller) -> str:
        """A code that opens one browser session, once, within a minute."""
        _, code = await self._give(caller.scope, caller.role, Purpose.LINK, "login link", LINK_S)
        return code

    async def redeem(self, code: str) -> str:
        """A session for a login link's code. The code is used up."""
        record = await self._record(code, Purpose.LINK)
        if not await self._remove(record.scope.organisation, record.id):
            raise Unauthorized("this login link was used already", hint="Ask for a new one: `anygpu open`.")
        _, session = await self._give(record.scope, record.role, Purpose.SESSION, "browser", SESSION_S)
        return session

    async def tokens(self, organisation: str) -> list[TokenRecord]:
        kept = await self._store.of(organisation)
        return [record for record in kept if record.purpose is not Purpose.LINK and not self._over(record)]

    async def revoke(self, organisation: str, token_id: str) -> None:
        if not await self._remove(organisation, token_id):
            raise NotFound(f"there is no token {token_id}")

    async def _record(self, secret: str, purpose: Purpose) -> TokenRecord:
        sha256 = hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
        record = await self._look_up(sha256)
        if record is None or record.purpose is not purpose or self._over(record):
            raise Unauthorized()
        return record

    async def _look_up(self, sha256: str) -> TokenRecord | None:
        known = self._known.get(sha256)
        if known is not None and self._now_ms() - known[0] < REMEMBER_S * 1000:
            return known[1]
        record = await self._store.find(sha256)
        self._known.pop(sha256, None)
        if record is not None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[sha256] = (self._now_ms(), record)
        return record

    async def _give(
        self,
        scope: Scope,
        role: Role,
        purpose: Purpose,
        name: str,
        life_s: float | None,
        token: str | None = None,
    ) -> tuple[TokenRecord, str]:
        secret = token or f"anygpu_{secrets.token_urlsafe(32)}"
        now_ms = self._now_ms()
        record = TokenRecord(
            id=secrets.token_hex(8),
            scope=scope,
            role=role,
            purpose=purpose,
            name=name,
            created_at_ms=now_ms,
            expires_at_ms=None if life_s is None else now_ms + int(life_s * 1000),
        )
        await self._store.add(hashlib.sha256(secret.encode()).hexdigest(), record)
        return record, secret

    async def _remove(self, organisation: str, token_id: str) -> bool:
        self._known = {key: known for key, known in self._known.items() if known[1].id != token_id}
        return await self._store.remove(organisation, token_id)

    def _over(self, record: TokenRecord) -> bool:
        return record.expires_at_ms is not None and self._now_ms() >= record.expires_at_ms


def in_project(scope: Scope, project: str, person: str) -> Scope:
    """The same organisation, perhaps another project or person: tokens never cross organisations."""
    return replace(scope, project=project or scope.project, person=person or scope.person)
