"""Sockets of the listeners."""

import pytest

from anygpu.server.process.listeners import bind, local_url


def test_a_socket_on_every_address_is_reached_on_loopback() -> None:
    with bind("0.0.0.0", 0) as bound:
        assert local_url(bound) == f"http://127.0.0.1:{bound.getsockname()[1]}"


def test_a_port_in_use_is_refused() -> None:
    with bind("127.0.0.1", 0) as bound:
        bound.listen()
        with pytest.raises(OSError, match="in use"):
            bind("127.0.0.1", bound.getsockname()[1])
