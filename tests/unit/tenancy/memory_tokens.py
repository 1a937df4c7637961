"""A token store in memory."""

from anygpu.errors import NotFound
from anygpu.store.scope import Scope
from anygpu.store.sql.tokens import Token


class MemoryTokens:
    """Tokens in a dictionary."""

    def __init__(self) -> None:
        self.stored: dict[str, Token] = {}

    async def make(
        self,
        scope: Scope,
        *,
        role: str,
        label: str = "",
        at_ms: int,
        expires_at_ms: int | None = None,
        token: str | None = None,
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
        )
        self.stored[text] = made
        return text, made

    async def look_up(self, token: str, *, at_ms: int) -> Token | None:
        return self.stored.get(token)

    async def list(self, scope: Scope) -> list[Token]:
        return [token for token in self.stored.values() if token.scope == scope]

    async def revoke(self, scope: Scope, token_id: str) -> None:
        remaining = {text: token for text, token in self.stored.items() if token.id != token_id}
        if len(remaining) == len(self.stored):
            raise NotFound(token_id)
        self.stored = remaining
