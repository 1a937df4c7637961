"""WebSocket frames that are encoded once and sent to many followers."""

from functools import lru_cache
from typing import Any

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

FINAL_TEXT = 0x81
CACHED_CHARACTERS = 8192  # longer messages are log output, which rarely has many followers


class SharedFrameProtocol(WebSocketsSansIOProtocol):
    """uvicorn's WebSocket protocol with one more message type: `frames`, bytes that are complete WebSocket frames.

    A server's frames are not masked and compression is off, so all clients get the same bytes.
    """

    async def send(self, message: Any) -> None:
        frames = message.get("frames")
        if frames is None:
            await super().send(message)
            return
        await self.writable.wait()
        if self.disconnected:
            raise ClientDisconnected
        if not self.close_sent:
            self.transport.write(frames)


def encode_frames(texts: list[str]) -> bytes:
    if len(texts) == 1:
        return _frame(texts[0])
    return b"".join(_frame(text) for text in texts)


def _frame(text: str) -> bytes:
    return _cached_frame(text) if len(text) <= CACHED_CHARACTERS else encode_frame(text)


def encode_frame(text: str) -> bytes:
    """Encode `text` as one complete WebSocket text frame (RFC 6455, 5.2)."""
    data = text.encode()
    size = len(data)
    if size < 126:
        head = bytes((FINAL_TEXT, size))
    elif size < 65536:
        head = bytes((FINAL_TEXT, 126)) + size.to_bytes(2, "big")
    else:
        head = bytes((FINAL_TEXT, 127)) + size.to_bytes(8, "big")
    return head + data


_cached_frame = lru_cache(maxsize=512)(encode_frame)
