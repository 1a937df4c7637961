"""A token store in memory."""

from collections.abc import Awaitable, Callable, Sequence

from anygpu.errors import NotFound
from anygpu.store.scope import Scope
from anygpu.store.sql.tokens import Token


class MemoryTokens:
    """Tokens in a dictionary."""

    def __init__(self) -> None:
        self.stored: dict[str, Token] = {}
        self.after_look_up: Callable[[], Awaitable[None]] | None = None  # runs before the result is returned

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
    ) -> tuple[str, Token]:
        text = token or f"secret-{len(self.stored)}"
        made = Token(
            id=f"id-{len(self.stored)}",
            scope=scope,
            role=role,
            label=label,
            created_at_ms=at_ms,
            used_at_ms=None,
            expires_at_ms=expires_at_ms,
            parent=parent,
        )
        self.stored[text] = made
        return text, made

    async def look_up(self, token: str, *, at_ms: int) -> Token | None:
        found = self.stored.get(token)
        if self.after_look_up is not None:
            await self.after_look_up()
        return found if found is not None and self._parent_is_valid(found, at_ms) else None

    def _parent_is_valid(self, token: Token, at_ms: int) -> bool:
        parents = [each for each in self.stored.values() if each.id == token.parent]
        expiries = [each.expires_at_ms for each in parents if each.expires_at_ms is not None]
        return token.parent is None or (bool(parents) and all(at_ms < each for each in expiries))

    async def get(self, token_id: str) -> Token:
        for token in self.stored.values():
            if token.id == token_id:
                return token
        raise NotFound(token_id)

    async def valid_ids(self, ids: Sequence[str], *, at_ms: int) -> set[str]:
        return {
            each.id for each in self.stored.values() if each.id in ids and self._parent_is_valid(each, at_ms)
        }

    async def list(self, scope: Scope) -> list[Token]:
        return [token for token in self.stored.values() if token.scope == scope]

    async def revoke(self, scope: Scope, token_id: str) -> None:
        remaining = {
            text: token for text, token in self.stored.items() if token_id not in (token.id, token.parent)
        }
        if len(remaining) == len(self.stored):
            raise NotFound(token_id)
        self.stored = remaining
