"""Look up the values of the secrets that a job refers to, when an agent claims its attempt."""

from collections.abc import Mapping
from typing import Protocol

from anygpu.store.scope import Scope


class SecretStore(Protocol):
    async def get(self, scope: Scope, name: str) -> str:
        """Return the value of a secret. Raise SecretMissing if it does not exist."""
        ...


class JobSecrets:
    """Returns the values of a job's secrets by environment variable. Uses only secrets of the job's project."""

    def __init__(self, store: SecretStore) -> None:
        self._store = store

    async def resolve(self, organisation: str, project: str, names: Mapping[str, str]) -> dict[str, str]:
        scope = Scope(organisation=organisation, project=project)
        return {variable: await self._store.get(scope, name) for variable, name in names.items()}
