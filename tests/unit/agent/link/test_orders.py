"""How long a lease lasts."""

from __future__ import annotations

from anygpu.agent.link.orders import AttemptLease


def test_a_lease_counts_from_when_the_renewal_was_sent() -> None:
    lease = AttemptLease(sent_at=100, lease_s=4)
    assert not lease.has_expired(103.9)
    lease.renew(sent_at=102, lease_s=4)
    assert not lease.has_expired(105.9)
    assert lease.has_expired(106)


def test_a_late_response_does_not_shorten_a_lease() -> None:
    lease = AttemptLease(100, 4)
    lease.renew(103, 4)
    lease.renew(101, 4)
    assert not lease.has_expired(104.5)


def test_a_server_that_grants_nothing_ends_the_lease() -> None:
    lease = AttemptLease(100, 60)
    lease.renew(101, 0)
    assert lease.has_expired(101)


def test_a_suspended_machine_gets_time_to_contact_the_server() -> None:
    lease = AttemptLease(100, 4)
    assert not lease.has_expired(101)
    assert not lease.has_expired(8000), "just woken"
    lease.renew(8001, 4)
    assert not lease.has_expired(8003)
