"""Whatever others write into the broker is read as a report, a message or nothing, and never an exception."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from tests.unit.backends.celery.test_observe import NAME, OWNER, SENT, report, state

from anygpu.backends.celery.broker import parse_broker
from anygpu.backends.celery.content import parse_message, parse_report, parse_workers
from anygpu.backends.celery.messages import BrokerKeys, StartMessage, WorkerReport
from anygpu.backends.celery.observe import observe
from anygpu.backends.celery.offers import account_status, build_offer, report_host
from anygpu.backends.celery.options import CeleryOptions
from anygpu.spec.sections import Resources

ODD_NUMBERS = st.sampled_from([10**400, -(10**400), 2**64, -1, 0, 1e308, float("inf"), float("nan")])
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), ODD_NUMBERS, st.text(max_size=8), st.just("\ud800")
)
VALUES = st.one_of(
    SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(st.sampled_from(["name", "uuid"]), SCALARS)
)
# Other programs on the machine must not make a test fail.
any_content = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
VALID = report(
    gpus=({"uuid": "GPU-1", "kind": "T4", "memory_gib": 16},),
    attempts=({"name": NAME, "owner": OWNER, "state": "running"},),
    ended=({"name": NAME, "owner": OWNER},),
).model_dump(mode="json")
CHANGED_REPORTS = st.dictionaries(st.sampled_from(sorted(VALID)), VALUES, min_size=1, max_size=3)


def use_everywhere(read: WorkerReport) -> None:
    """Call everything that uses a report."""
    build_offer(read, Resources(), backend="lab", options=CeleryOptions(broker="redis://localhost"))
    report_host(read)
    account_status(parse_broker("redis://localhost"), BrokerKeys("q"), state(read), {}, [])
    observe(state(read), SENT, OWNER)


@any_content
@given(CHANGED_REPORTS)
def test_a_report_with_any_values_is_used_or_is_not_valid(changes: dict[str, Any]) -> None:
    read = parse_report(json.dumps({**VALID, **changes}).encode())
    if read is not None:
        use_everywhere(read)


@pytest.mark.parametrize("field", ["clock_ms", "at_ms", "started_at_ms", "pid", "cpus", "disk_gib"])
@pytest.mark.parametrize("value", ["1" * 400, "1" * 9_000, "-1", "Infinity", "NaN", "1e400"])
def test_a_report_with_a_number_out_of_range_is_not_valid(field: str, value: str) -> None:
    document = json.dumps({**VALID, field: "here"}).replace('"here"', value)
    assert parse_report(document.encode()) is None


@any_content
@given(st.binary(max_size=50) | VALUES.map(lambda value: json.dumps(value).encode()))
def test_content_of_any_form_is_neither_a_report_nor_a_message(data: bytes) -> None:
    assert parse_report(data) is None
    assert parse_message("gpu0@lab1", data) is None


@any_content
@given(st.dictionaries(st.sampled_from(["task", "id", "anygpu_owner"]), VALUES, min_size=1))
def test_a_message_of_another_form_does_not_count(changes: dict[str, Any]) -> None:
    headers = {"task": "anygpu.start_attempt", "id": NAME, "anygpu_owner": OWNER}
    message = json.dumps({"headers": headers}).encode()
    assert parse_message("gpu0@lab1", message) is not None
    changed = json.dumps({"headers": {**headers, **changes}}).encode()
    assert parse_message("gpu0@lab1", changed) is None


@any_content
@given(st.lists(st.tuples(st.binary(max_size=20) | st.just(b"gpu0@lab1"), st.floats())))
def test_every_score_of_a_worker_is_a_time_or_unknown(scores: list[tuple[bytes, float]]) -> None:
    for at_ms in parse_workers(scores).values():
        assert at_ms is None or 0 <= at_ms <= 2**53


def test_a_worker_with_an_infinite_score_is_still_known() -> None:
    assert parse_workers([(b"gpu0@lab1", float("inf")), (b"gpu1@lab1", 5.0), (b"../x", 5.0)]) == {
        "gpu0@lab1": None,
        "gpu1@lab1": 5,
    }


@any_content
@given(st.dictionaries(st.sampled_from(["url", "urls", "relay"]), VALUES))
def test_a_ticket_of_any_form_has_addresses_or_is_not_valid(ticket: dict[str, Any]) -> None:
    try:
        message = StartMessage.model_validate({"name": NAME, "owner": OWNER, "ticket": ticket})
    except ValidationError:
        return
    assert all(isinstance(url, str) and url for url in message.server_urls)


@pytest.mark.parametrize("ticket", [{"urls": 5}, {"urls": "http://a"}, {"urls": [5]}, {"url": ["http://a"]}])
def test_a_ticket_with_addresses_of_another_form_is_not_valid(ticket: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="is not the address of a server"):
        StartMessage.model_validate({"name": NAME, "owner": OWNER, "ticket": ticket})


def test_the_addresses_of_a_ticket_are_listed_once() -> None:
    ticket = {"url": "http://a", "urls": ["http://b", "http://a"]}
    message = StartMessage(name=NAME, owner=OWNER, ticket=ticket)
    assert message.server_urls == ["http://a", "http://b"]
