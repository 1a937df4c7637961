"""Frames made once are what a client's own library reads."""

import pytest
from websockets.client import ClientProtocol
from websockets.frames import Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from anygpu.server.live.sockets import CACHED_CHARACTERS, encode_frame, encode_frames


@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 65535, 65536, 200_000])
def test_a_client_reads_frames_of_every_size(size: int) -> None:
    client = ClientProtocol(parse_uri("ws://localhost/"), state=State.OPEN, max_size=None)
    texts = ["ä" * (size // 2), "x" * size, '{"kind": "ping"}']
    client.receive_data(encode_frames(texts))
    frames = client.events_received()
    assert [frame.data.decode() for frame in frames] == texts  # type: ignore[union-attr]
    assert all(frame.opcode is Opcode.TEXT and frame.fin for frame in frames)  # type: ignore[union-attr]


def test_the_same_short_message_is_encoded_once() -> None:
    text = '{"kind": "event"}'
    assert encode_frames([text]) is encode_frames([text])
    long = "x" * (CACHED_CHARACTERS + 1)
    assert encode_frames([long]) == encode_frame(long)
