"""Each kind of stop has its steps and times."""

from __future__ import annotations

import pytest

from anygpu.agent.run import stopping
from anygpu.agent.run.preemption import PreemptionNotice


@pytest.mark.parametrize(
    ("stop", "outcome", "steps"),
    [
        (stopping.order_stop({"kind": "cancel"}, 0, 10), "cancelled", {0: ["flag", "term"], 10: ["kill"]}),
        (
            stopping.order_stop({"kind": "stop", "reason": "budget"}, 0, 10),
            "stopped",
            {0: ["flag"], 10: ["term"], 20: ["kill"]},
        ),
        (
            stopping.order_stop({"kind": "stop", "reason": "timeout"}, 0, 10),
            "timeout",
            {0: ["flag"], 10: ["term"]},
        ),
        (stopping.timeout_stop(0, 10), "timeout", {0: ["flag"], 10: ["term"], 20: ["kill"], 50: ["abandon"]}),
        (stopping.lost_lease_stop(0, 10), "lease_lost", {0: ["flag", "term"], 10: ["kill"], 40: ["abandon"]}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_stop_has_its_steps(
    stop: stopping.StopRequest, outcome: str, steps: dict[int, list[str]]
) -> None:
    assert stop.outcome == outcome
    assert {at: stop.take_due(at) for at in steps} == steps


def test_a_later_notice_counts_only_if_it_leaves_less_time() -> None:
    first, now = PreemptionNotice(120, "time limit"), 0.0
    now = first.at - 120
    stop = stopping.preemption_stop(now, first)
    assert not stopping.preemption_stop(now + 60, first).replaces(stop)
    sooner = PreemptionNotice(30, "cancelled")
    assert stopping.preemption_stop(now, sooner).replaces(stop)
    assert not stop.replaces(stopping.preemption_stop(now, sooner))
    assert stopping.order_stop({"kind": "cancel"}, now, 10).replaces(stop)


@pytest.mark.parametrize(
    ("seconds", "term_at", "kill_at", "published_by", "in_haste"),
    [(120, 42, 60, 115, False), (30, 10.5, 15, 27, False), (10, 3.5, 5, 9, True), (0, 0, 0, 0, True)],
)
def test_a_notice_leaves_time_to_save_and_to_upload(
    seconds: float, term_at: float, kill_at: float, published_by: float, in_haste: bool
) -> None:
    notice = PreemptionNotice(seconds, "said")
    stop = stopping.preemption_stop(notice.at - seconds, notice)
    steps = {action: at - (notice.at - seconds) for at, action in stop.steps}
    assert stop.publish_until is not None
    assert steps["flag"] == 0
    assert (steps["term"], steps["kill"]) == pytest.approx((term_at, kill_at))
    assert stop.publish_until - (notice.at - seconds) == pytest.approx(published_by)
    assert (stop.is_short_notice, stop.outcome) == (in_haste, "stopped")
