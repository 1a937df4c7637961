"""An agent is told the whole of what is wanted of it now, and a version that only rises."""

import pytest
from tests.unit.control.jobs_in_states import lost, recovering, stopping, training, view

from anygpu.control.agents.orders import orders_for, version_of
from anygpu.control.agents.tickets import AttemptKey
from anygpu.events.types import CancelRequested, Event

KEY = AttemptKey("job", 1, "agent")
ENDED = [{"kind": "cancel", "reason": "ended"}]


ORDERS = [
    (training(), [], 0),
    ([*training(), stopping("timeout")], [{"kind": "stop", "reason": "timeout"}], 1),
    ([*training(), stopping("timeout"), CancelRequested()], [{"kind": "cancel"}], 2),
    ([*training(), lost()], ENDED, 3),
    ([*training(), lost(), recovering(), *training(2)], ENDED, 3),
]


@pytest.mark.parametrize(("events", "orders", "version"), ORDERS)
def test_orders_are_the_whole_of_what_is_wanted_now(
    events: list[Event], orders: list[dict[str, str]], version: int
) -> None:
    assert orders_for(view(*events), KEY) == orders
    assert version_of(orders) == version
