"""The orders that the server gives to an agent: to cancel or to stop."""

from anygpu.control.agents import gang
from anygpu.control.agents.tickets import AttemptKey
from anygpu.events.view import JobView

ENDED = "ended"  # the reason to cancel when the attempt has ended on all its nodes
VERSIONS = {"stop": 1, "cancel": 2}
ENDED_VERSION = 3


def orders_for(view: JobView, key: AttemptKey) -> list[dict[str, str]]:
    """Return the orders that the agent has to obey now: `cancel`, `stop` with a reason, or none.

    An agent that no longer owns its attempt gets the order to cancel, with the reason `ended` if the attempt is over.
    If the job is damaged, the owner is not known for certain, so no agent gets an order.
    """
    if view.damaged:  # the job cannot be managed now: the agent continues until the sweeper ends its machine
        return []
    live = view.live_attempt
    if live is None or live.number != key.attempt:
        return [{"kind": "cancel", "reason": ENDED}]
    if view.cancel_requested or live.claimant_of(key.node) != key.claimant:
        return [{"kind": "cancel"}]
    if live.stop_reason:
        return [{"kind": "stop", "reason": live.stop_reason}]
    return gang.node_orders(live, key)


def version_of(orders: list[dict[str, str]]) -> int:
    """Return the version number of an agent's orders: 0 for none, 1 for `stop`, 2 for `cancel`, 3 when all has ended.

    Orders of an attempt only escalate in this sequence, so the version never decreases.
    """
    versions = (
        ENDED_VERSION if order.get("reason") == ENDED else VERSIONS[order["kind"]] for order in orders
    )
    return max(versions, default=0)
