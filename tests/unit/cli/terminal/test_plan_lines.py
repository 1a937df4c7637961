from typing import Any

import pytest

from anygpu.cli.terminal import plan_lines

ENTRY: dict[str, Any] = {
    "backend": "azure",
    "zone": "",
    "region": "eastus2",
    "name": "Standard_NC4as_T4_v3",
    "interruptible": True,
    "configured": False,
    "gpus": 1,
    "gpu": "T4",
    "price_microusd_per_hour": 60_000,
    "seconds": {"expected": 16_000, "high": 49_000},
    "cost_microusd": {"expected": 270_000, "high": 800_000},
    "confidence": "medium",
    "wait": "",
    "pros": ["cheapest to finish"],
    "cons": ["may be interrupted, which adds about 8 min", "takes 26.7 times as long as the fastest offer"],
}
LINT = {
    "file": "train.py",
    "line": 19,
    "says": "The data loader has 0 workers: the GPU waits while each batch is read.",
    "do": "Set num_workers to 4 or to the number of CPUs per GPU.",
}


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_reasons_and_advice_are_wrapped_completely(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = [*plan_lines.offer_table([ENTRY]), *plan_lines.advice_lines({"lints": [LINT]})]
    assert max(len(line) for line in lines) <= columns
    told = " ".join(" ".join(lines).split())
    assert "cheapest to finish; but may be interrupted, which adds about 8 min, takes 26.7 times" in told
    assert f"- train.py:19: {LINT['says']} {LINT['do']}" in told


def test_the_worst_case_is_below_the_row_on_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    row, under = plan_lines.offer_table([ENTRY])[1:3]
    assert "  $0.27  " in row
    assert under.strip().startswith("worst case 13h36m, $0.80; cheapest")
    monkeypatch.setenv("COLUMNS", "140")
    assert "$0.27 (to $0.80)" in plan_lines.offer_table([ENTRY])[1]


def test_several_nodes_are_shown_with_the_price_of_one_and_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    gang = {"nodes": 4, "price_microusd_per_hour": 2_000_000, "interconnect": "efa (400 Gbit/s)"}
    row, under = plan_lines.offer_table([ENTRY | gang])[1:3]
    assert "4 x 1 x T4" in row
    assert "4 nodes at $2.00/h, $8.00/h together, over efa (400 Gbit/s)" in under
    own = {"nodes": 2, "price_microusd_per_hour": 0, "interconnect": "ethernet (10 Gbit/s assumed)"}
    assert "2 nodes, over ethernet" in plan_lines.offer_table([ENTRY | own])[2]


def test_without_offers_the_reasons_are_shown_once() -> None:
    out = {"offers": 3, "reason": "has L4, the job needs H100", "examples": []}
    told = {"offers": [], "short": [], "more_offers": 0, "rejected": [out]}
    assert plan_lines.offer_lines(told, rejected=True) == ["No offer fits this job."]
    assert "--rejected shows why" in plan_lines.offer_lines(told)[0]
