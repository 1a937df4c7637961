"""Choosing the relay that an option or a setting names."""

import pytest

from anygpu.backends.relay.contract import NO_RELAYS, RELAY_LEASE_S, lease_with_relay
from anygpu.errors import KindUnusable


def test_an_empty_name_means_no_relay() -> None:
    assert NO_RELAYS.choose("") is None


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("directory", "The relay 'directory' is not configured. Set relay.directory to a directory"),
        ("storage", "The relay 'storage' is not configured. Set store.blobs to a bucket"),
        ("directry", "There is no relay 'directry'. Choose directory or storage."),
    ],
)
def test_a_relay_that_cannot_be_used_says_what_to_do(kind: str, message: str) -> None:
    with pytest.raises(KindUnusable, match=message):
        NO_RELAYS.choose(kind)


def test_machines_behind_a_relay_have_at_least_its_lease() -> None:
    assert lease_with_relay(60, "storage") == RELAY_LEASE_S
    assert lease_with_relay(86_400, "storage") == 86_400
    assert lease_with_relay(60, "") == 60
