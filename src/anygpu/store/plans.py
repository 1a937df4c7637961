"""Plans that were made for an organisation's jobs."""

import hashlib
import json
from typing import Any

from anygpu.errors import BlobCorrupt
from anygpu.store.blobs import Blobs
from anygpu.store.layout import plan_key


class Plans:
    """Named by their content: jobs with the same plan share one file."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    async def keep(self, organisation: str, plan: dict[str, Any]) -> str:
        """The key to find it by."""
        text = json.dumps(plan, sort_keys=True, separators=(",", ":")).encode()
        key = plan_key(organisation, hashlib.sha256(text).hexdigest())
        await self._blobs.put(key, text)
        return key

    async def read(self, key: str) -> dict[str, Any]:
        """BlobMissing when it is no longer there."""
        try:
            plan = json.loads(await self._blobs.get(key))
        except ValueError:
            plan = None
        if not isinstance(plan, dict):
            raise BlobCorrupt(f"{key} does not hold a plan")
        return plan
