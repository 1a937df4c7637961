"""Resolve the secrets that a job refers to, when its attempt is claimed."""

from collections.abc import Mapping
from typing import Protocol

from anygpu.store.scope import Scope


class SecretStore(Protocol):
    async def get(self, scope: Scope, name: str) -> str:
        """Return the value of a secret. Raise SecretMissing if it does not exist."""
        ...


class JobSecrets:
    """Resolves the secrets of a job, within its own project, to environment variables."""

    def __init__(self, store: SecretStore) -> None:
        self._store = store

    async def resolve(self, organisation: str, project: str, names: Mapping[str, str]) -> dict[str, str]:
        scope = Scope(organisation=organisation, project=project)
        return {variable: await self._store.get(scope, name) for variable, name in names.items()}
