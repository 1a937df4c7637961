"""What a restarted server needs to reach an attempt again, sealed so that the journal may hold it.

An attempt whose machine was accepted is never launched again; its ticket must then come from its handle.
"""

import base64
import hashlib
import hmac
import json
from dataclasses import asdict
from typing import Any

from anygpu.backends.contract import Launch
from anygpu.spec.sections import Resources


class Seal:
    """Only a server with the same secret can open what this closes."""

    def __init__(self, secret: bytes) -> None:
        self._key = base64.urlsafe_b64encode(hmac.new(secret, b"sealed launches", hashlib.sha256).digest())

    def closed(self, launch: Launch) -> str:
        plain = {**asdict(launch), "resources": launch.resources.model_dump(mode="json")}
        return str(self._fernet().encrypt(json.dumps(plain).encode()).decode())

    def opened(self, sealed: str) -> Launch | None:
        """None when it was sealed by somebody else or is damaged."""
        from cryptography.fernet import InvalidToken

        try:
            plain = json.loads(self._fernet().decrypt(sealed))
        except InvalidToken:
            return None
        return Launch(**{**plain, "resources": Resources.model_validate(plain["resources"])})

    def _fernet(self) -> Any:
        from cryptography.fernet import Fernet  # costs 50 ms, which a server without machines saves

        return Fernet(self._key)
