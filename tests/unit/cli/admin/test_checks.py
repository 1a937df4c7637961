"""The checks for a first job: interpreter, data, backends, slots."""

import sys
from pathlib import Path
from typing import Any

import pytest

from anygpu.cli.admin import checks

ROWS = "a,b,y\n" + "".join(f"{n},{n % 3},{n % 2}\n" for n in range(30))


def backend(**more: Any) -> dict[str, Any]:
    usual = {"valid": True, "why": "", "quota": "", "balance_microusd": None, "offers": 3, "refused_why": ""}
    return {"name": "cloud", **usual, **more}


@pytest.mark.parametrize(
    ("check", "state", "said"),
    [
        (backend(), "ok", "cloud: 3 offers"),
        (
            backend(quota="8 vCPUs", balance_microusd=2_500_000),
            "ok",
            "cloud: quota: 8 vCPUs, balance: $2.50, 3 offers",
        ),
        (backend(balance_microusd=0), "warn", "cloud: balance: $0, 3 offers"),
        (backend(offers=0), "warn", "cloud: 0 offers: it offers no machine now"),
        (backend(valid=False, why="the key is not valid"), "fail", "cloud: the key is not valid"),
    ],
)
def test_a_backend_is_ok_a_warning_or_a_problem(check: dict[str, Any], state: str, said: str) -> None:
    result = checks.backend_result(check)
    assert (result.state, result.said) == (state, said)
    assert bool(result.advice) == (state != "ok")


def test_full_machines_are_a_warning() -> None:
    slots: list[dict[str, Any]] = [
        {"backend": "local", "name": "here", "free": 2, "reason": ""},
        {"backend": "lab", "name": "gpu1", "free": 0, "reason": "all slots of lab are taken"},
        {"backend": "cloud", "name": "", "free": None, "reason": ""},
    ]
    results = list(checks.slot_results(slots))
    assert [(each.state, each.said) for each in results] == [
        ("ok", "local here: 2 jobs can start now"),
        ("warn", "lab gpu1: all slots of lab are taken"),
    ]


def test_the_interpreter_of_scripts_must_start(tmp_path: Path) -> None:
    started, installer = checks.check_interpreter(sys.executable)
    assert (started.state, installer.state) == ("ok", "ok")
    (broken,) = checks.check_interpreter(str(tmp_path / "python"))
    assert (broken.state, broken.what) == ("fail", "scripts")


def test_data_is_checked_with_and_without_a_trainer(tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    table.write_text(ROWS)
    (plain,) = checks.check_data(str(table), "", {})
    assert plain == ("ok", "dataset", f"{table}: table, 3 columns, 30 rows", "")
    first = next(checks.check_data(str(table), "tabular", {"target": "y"}))
    assert (first.state, first.what) == ("ok", "trainer")
    wrong = next(checks.check_data(str(table), "tabular", {"target": "z"}))
    assert wrong.state == "fail"
    assert "there is no column 'z'; the columns are a, b, y" in wrong.said
    (missing,) = checks.check_data(str(tmp_path / "none"), "", {})
    assert missing.state == "fail"


@pytest.mark.parametrize(("driver", "needs"), [("580.1", False), ("535.54.03", True), ("unknown", False)])
def test_a_driver_that_is_too_old_for_the_newest_torch_gets_advice(driver: str, needs: bool) -> None:
    assert bool(checks.driver_advice(driver)) == needs
