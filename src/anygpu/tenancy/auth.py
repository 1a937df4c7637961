"""Authentication by tokens, browser sessions and login links, each with a role.

All three are secrets that are stored in the same way: the hash of the secret with an owner, a role and an
expiry. The stored role begins with the purpose (`session:member`), so that a secret for one purpose is not
accepted for another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from typing import Protocol

from anygpu.errors import Forbidden, NotFound, Unauthorized
from anygpu.store.scope import Scope
from anygpu.store.sql.tokens import Token

CACHE_S = 5.0  # a token that another server process revoked works this long at most
MAX_CACHED = 10_000
LOGIN_LINK_S = 60.0
SESSION_S = 7 * 86400.0


class Role(StrEnum):
    """What the owner of a token may do. Each role includes the permissions of the roles below it."""

    OPERATOR = "operator"  # the server: tokens of every organisation, retention, metrics
    ADMIN = "admin"  # the organisation's tokens
    MEMBER = "member"  # submit, cancel, read
    VIEWER = "viewer"  # read

    @property
    def can_write(self) -> bool:
        return self.includes(Role.MEMBER)

    def includes(self, other: "Role") -> bool:
        ranks = list(Role)
        return ranks.index(self) <= ranks.index(other)


class TokenPurpose(StrEnum):
    """What a secret is for: the API, a login link or a browser session. It is accepted for nothing else."""

    API = "api"
    LINK = "link"
    SESSION = "session"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sent a request: organisation, project and person (the scope), and the role."""

    scope: Scope
    role: Role
    token_id: str
    parent: str | None = None  # of a browser session: the token it was made from
    by_cookie: bool = False

    def require(self, role: Role) -> None:
        if not self.role.includes(role):
            raise Forbidden(
                f"This request needs the role {role}, but your token has the role {self.role}. Ask an "
                f"administrator for a token with the role {role}."
            )


class TokenStore(Protocol):
    """A store of tokens, by the hash of their secret."""

    async def make(
        self,
        scope: Scope,
        *,
        role: str,
        label: str = "",
        at_ms: int,
        expires_at_ms: int | None = None,
        token: str | None = None,
        parent: str | None = None,
    ) -> tuple[str, Token]: ...

    async def look_up(self, token: str, *, at_ms: int) -> Token | None:
        """Return the token if it is valid. A token that was made from another one is valid only as long as that one."""
        ...

    async def get(self, token_id: str) -> Token:
        """Return a token of any scope. Raise NotFound if it does not exist."""
        ...

    async def list(self, scope: Scope) -> Sequence[Token]: ...

    async def revoke(self, scope: Scope, token_id: str) -> None:
        """Remove a token. Raise NotFound if it does not exist.

        If two calls remove the same token at the same time, exactly one of them succeeds.
        """
        ...


class Authenticator:
    """Creates and verifies tokens, browser sessions and login codes.

    `on_revoked` is called with the id of every token that this process revokes.
    """

    def __init__(
        self,
        store: TokenStore,
        now_ms: Callable[[], int],
        on_revoked: Callable[[str], None] = lambda token_id: None,
    ) -> None:
        self._store = store
        self._now_ms = now_ms
        self._on_revoked = on_revoked
        self._cache: dict[str, tuple[int, Token]] = {}
        self._revocations = 0

    async def caller_for_token(self, token: str) -> Caller:
        return _caller(await self._require_token(token, TokenPurpose.API))

    async def caller_for_session(self, session: str) -> Caller:
        return _caller(await self._require_token(session, TokenPurpose.SESSION))

    async def create_token(
        self,
        scope: Scope,
        role: Role,
        *,
        label: str = "",
        life_s: float | None = None,
        token: str | None = None,
    ) -> tuple[Token, str]:
        """Create a token, and return it with its secret.

        The secret cannot be read again later, because only its hash is stored.
        """
        return await self._issue_token(scope, role, TokenPurpose.API, label, life_s, token)

    async def create_login_code(self, caller: Caller, *, life_s: float = LOGIN_LINK_S) -> str:
        """Return a code that starts a browser session. The code works once, within `life_s` seconds."""
        parent = caller.parent or caller.token_id
        _, code = await self._issue_token(
            caller.scope, caller.role, TokenPurpose.LINK, "login link", life_s, parent=parent
        )
        return code

    async def redeem_login_code(self, code: str) -> str:
        """Exchange a login code for the secret of a new browser session. A code works once."""
        link = await self._require_token(code, TokenPurpose.LINK)
        try:
            await self._revoke(link)
        except NotFound:
            raise Unauthorized(
                "This login link was used before, and each link works only once.",
                hint="Create a new link with `anygpu open`.",
            ) from None
        _, session = await self._issue_token(
            link.scope, role_of(link), TokenPurpose.SESSION, "browser", SESSION_S, parent=link.parent
        )
        return session

    async def list_tokens(self, scope: Scope) -> list[Token]:
        """Return the valid tokens and browser sessions of the scope's project."""
        stored = await self._store.list(scope)
        return [
            each
            for each in stored
            if purpose_of(each) is not TokenPurpose.LINK and not self._is_expired(each)
        ]

    async def revoke_token(self, caller: Caller, token_id: str, *, project: str | None = None) -> None:
        """Revoke a token or browser session, and the sessions made from it.

        The operator may revoke every token. Others may revoke the tokens of a project of their organisation
        whose role is not above their own.
        """
        token = await self._store.get(token_id)
        if not caller.role.includes(Role.OPERATOR):
            own = replace(caller.scope, project=project or caller.scope.project)
            if (token.scope.organisation, token.scope.project) != (own.organisation, own.project):
                raise NotFound(
                    f"There is no token with the id {token_id[:100]!r} in your project.",
                    hint="`anygpu token ls` lists the tokens.",
                )
            caller.require(role_of(token))
        await self._revoke(token)

    async def end_session(self, caller: Caller) -> None:
        """End the browser session of the caller."""
        await self._revoke(await self._store.get(caller.token_id))

    async def _revoke(self, token: Token) -> None:
        await self._store.revoke(token.scope, token.id)
        self._revocations += 1
        self._cache = {
            key: cached
            for key, cached in self._cache.items()
            if token.id not in (cached[1].id, cached[1].parent)
        }
        self._on_revoked(token.id)

    async def _require_token(self, secret: str, purpose: TokenPurpose) -> Token:
        token = await self._find_token(secret)
        if token is None or purpose_of(token) is not purpose or self._is_expired(token):
            raise Unauthorized()
        if purpose is not TokenPurpose.API and token.parent is None:
            raise Unauthorized()  # a session of an older server, which did not store the session's token
        return token

    async def _find_token(self, secret: str) -> Token | None:
        key = sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
        cached = self._cache.get(key)
        if cached is not None and self._now_ms() - cached[0] < CACHE_S * 1000:
            return cached[1]
        revocations = self._revocations
        token = await self._store.look_up(secret, at_ms=self._now_ms())
        self._cache.pop(key, None)
        if token is not None and revocations == self._revocations:  # it may be the token just revoked
            if len(self._cache) >= MAX_CACHED:
                self._cache.clear()
            self._cache[key] = (self._now_ms(), token)
        return token

    async def _issue_token(
        self,
        scope: Scope,
        role: Role,
        purpose: TokenPurpose,
        label: str,
        life_s: float | None,
        token: str | None = None,
        parent: str | None = None,
    ) -> tuple[Token, str]:
        now_ms = self._now_ms()
        stored = str(role) if purpose is TokenPurpose.API else f"{purpose}:{role}"
        secret, made = await self._store.make(
            scope,
            role=stored,
            label=label,
            at_ms=now_ms,
            expires_at_ms=None if life_s is None else now_ms + int(life_s * 1000),
            token=token,
            parent=parent,
        )
        return made, secret

    def _is_expired(self, token: Token) -> bool:
        return token.expires_at_ms is not None and self._now_ms() >= token.expires_at_ms


def purpose_of(token: Token) -> TokenPurpose:
    before, colon, _ = token.role.partition(":")
    return TokenPurpose(before) if colon else TokenPurpose.API


def role_of(token: Token) -> Role:
    return Role(token.role.rpartition(":")[2])


def _caller(token: Token) -> Caller:
    by_cookie = purpose_of(token) is TokenPurpose.SESSION
    return Caller(
        scope=token.scope,
        role=role_of(token),
        token_id=token.id,
        parent=token.parent,
        by_cookie=by_cookie,
    )
