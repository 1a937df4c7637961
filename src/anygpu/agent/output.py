"""The job's output on its way to the report: secrets are masked, however they are cut into writes."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

MASK = b"***"
SHORTEST_SECRET = 4
SAFE_PREFIX = 3


class Mask:
    """Replaces secret values by `***` in a stream of bytes.

    A tail that could be the beginning of a secret is held back: at most one byte less than the longest secret.
    When the stream rests, `idle()` lets a tail of up to three bytes go (a prompt must appear), remembers it, and
    still masks the rest if the secret goes on; a longer tail is the secret's own text and stays until more comes.
    At the end such a tail becomes `***`. Values under four bytes are not masked: they would eat the output.
    """

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = _worth_masking(secrets)
        self._pattern = re.compile(b"|".join(re.escape(secret) for secret in self._secrets))
        self._held = b""
        self._shown = 0  # how many bytes at the front of _held have been let go already

    def feed(self, data: bytes) -> bytes:
        if not self._secrets:
            return data
        text, shown = self._held + data, self._shown
        tail_at = len(text) - self._tail(text)
        out, at = [], 0
        for match in self._pattern.finditer(text):
            if match.start() >= tail_at:
                break
            out.append(text[max(at, shown) : max(match.start(), shown)])
            out.append(MASK)
            at = match.end()
        tail_at = max(tail_at, at)
        out.append(text[max(at, shown) : max(tail_at, shown)])
        self._held, self._shown = text[tail_at:], max(0, shown - tail_at)
        return b"".join(out)

    @property
    def is_holding(self) -> bool:
        return len(self._held) > self._shown

    def idle(self) -> bytes:
        if len(self._held) > SAFE_PREFIX:
            return b""
        let_go, self._shown = self._held[self._shown :], len(self._held)
        return let_go

    def close(self) -> bytes:
        held, shown = self._held, self._shown
        self._held, self._shown = b"", 0
        if len(held) <= shown:
            return b""
        return held[shown:] if len(held) <= SAFE_PREFIX else MASK

    def text(self, text: str) -> str:
        """A whole text, such as a message."""
        if not self._secrets:
            return text
        return self._pattern.sub(MASK, text.encode("utf-8", "surrogatepass")).decode("utf-8", "replace")

    def _tail(self, text: bytes) -> int:
        """The length of the longest end of `text` that is a proper beginning of a secret."""
        longest = 0
        for secret in self._secrets:
            for size in range(min(len(secret) - 1, len(text)), longest, -1):
                if text.endswith(secret[:size]):
                    longest = size
                    break
        return longest


def _worth_masking(secrets: Iterable[str]) -> list[bytes]:
    """Longest first, so that a secret that contains another is masked whole.

    A key of many lines counts line by line.
    """
    values = {
        part.encode("utf-8", "surrogateescape")
        for secret in secrets
        for part in (secret, *secret.split("\n"))
    }
    return sorted((value for value in values if len(value) >= SHORTEST_SECRET), key=len, reverse=True)
