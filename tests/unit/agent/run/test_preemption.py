"""Preemption notices of each provider."""

from __future__ import annotations

import time

import pytest

from anygpu.agent.run import preemption


def test_a_notice_uses_the_clock_of_the_provider() -> None:
    said = '{"action": "terminate", "time": "2026-09-18T08:22:00Z"}'
    notice = preemption.parse_aws_notice(said, now_s=1789719600.0)
    assert notice.at - time.monotonic() == pytest.approx(120, abs=1)
    assert said in notice.source


def test_an_event_for_another_machine_of_the_scale_set_is_ignored() -> None:
    said = (
        '{"Events": [{"EventType": "Preempt", "Resources": ["other"], "NotBefore": ""},'
        ' {"EventType": "Reboot", "Resources": ["ours"], "NotBefore": ""}]}'
    )
    assert preemption.parse_azure_notice(said, "ours", 0.0) is None
    assert preemption.parse_azure_notice(said, "other", 0.0) is not None
