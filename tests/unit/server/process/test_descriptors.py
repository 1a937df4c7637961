"""Descriptors are shared between the listeners."""

import pytest

from anygpu.server.process.descriptors import (
    LISTENERS,
    RESERVED,
    connections_per_listener,
    raise_descriptor_limit,
)


@pytest.mark.parametrize("descriptors", [1024, 4096, 20_000, 1_000_000])
def test_connections_that_are_open_or_wait_leave_descriptors_for_the_rest(descriptors: int) -> None:
    allowed = connections_per_listener(4096, descriptors)
    assert 100 < allowed <= 4096
    assert 2 * LISTENERS * allowed <= descriptors - RESERVED


def test_there_is_always_one_connection() -> None:
    assert connections_per_listener(4096, 64) == 1


def test_raising_the_limit_twice_gives_the_same_limit() -> None:
    assert raise_descriptor_limit() == raise_descriptor_limit() > 0
