"""Sign and verify the tickets and tokens of attempts.

Both are derived from the server's secret and never stored.
"""

import hashlib
import hmac
from typing import NamedTuple

from anygpu.errors import Unauthorized
from anygpu.store.reports import report_number

NODE_TOKEN_PARTS = 4


class AttemptKey(NamedTuple):
    """The attempt that a token belongs to, and the agent that owns the attempt."""

    job_id: str
    attempt: int
    claimant: str
    node: int = 0  # of an attempt on several nodes

    @property
    def report_number(self) -> int:
        """The number under which the reports of this agent are stored."""
        return report_number(self.attempt, self.node)


class Tickets:
    """Signs credentials of attempts: a ticket to claim the attempt once, and a token for later requests."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def ticket(self, job_id: str, attempt: int) -> str:
        return self._sign("ticket", job_id, str(attempt))

    def token(self, job_id: str, attempt: int, claimant: str, node: int = 0) -> str:
        """Return the token of an agent. The token of node 0 has the form that it has for attempts on one machine."""
        if node:
            return self._sign("node token", job_id, str(attempt), claimant, str(node))
        return self._sign("token", job_id, str(attempt), claimant)

    def read_ticket(self, ticket: str) -> tuple[str, int]:
        job_id, attempt = self._read("ticket", ticket, parts=2)
        return job_id, int(attempt)

    def read_token(self, token: str) -> AttemptKey:
        if token.count(".") == NODE_TOKEN_PARTS:
            job_id, attempt, claimant, node = self._read("node token", token, parts=NODE_TOKEN_PARTS)
            return AttemptKey(job_id, int(attempt), claimant, int(node))
        job_id, attempt, claimant = self._read("token", token, parts=3)
        return AttemptKey(job_id, int(attempt), claimant)

    def _sign(self, kind: str, *parts: str) -> str:
        return ".".join((*parts, self._mac(kind, parts)))

    def _mac(self, kind: str, parts: tuple[str, ...]) -> str:
        text = "\0".join((kind, *parts)).encode()
        return hmac.new(self._secret, text, hashlib.sha256).hexdigest()

    def _read(self, kind: str, signed: str, *, parts: int) -> tuple[str, ...]:
        *fields, mac = signed.split(".")
        good = len(fields) == parts and hmac.compare_digest(
            mac.encode("utf-8", "replace"), self._mac(kind, tuple(fields)).encode()
        )
        if not good:
            raise Unauthorized(
                f"This {kind} was not signed by this server. Check the server's URL, and that its signing key "
                "(server.signing_key) has not changed."
            )
        return tuple(fields)


def ticket_sha256(ticket: str) -> str:
    return hashlib.sha256(ticket.encode()).hexdigest()
