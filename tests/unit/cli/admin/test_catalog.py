import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.unit.plan.catalog.builders import HEADING

from anygpu.cli.admin.catalog import catalog_command
from anygpu.errors import InvalidSpec, NotFound

SKY = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANYGPU_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("ANYGPU_CONFIG", str(tmp_path / "config.toml"))
    monkeypatch.setenv("COLUMNS", "160")
    return tmp_path


def ran(*words: str) -> Result:
    return CliRunner().invoke(catalog_command, words, catch_exceptions=True)


def shown(*words: str) -> list[dict[str, Any]]:
    offers: list[dict[str, Any]] = json.loads(ran("show", "--json", "--limit", "0", *words).stdout)["offers"]
    return offers


def test_the_cheapest_come_first_and_old_prices_are_marked() -> None:
    text = ran("show", "--gpu", "a100", "--cloud", "azure", "--cloud", "runpod").stdout
    assert text.splitlines()[0].split()[:3] == ["CLOUD", "MACHINE", "GPU"]
    assert "2025-09-11 old" in text
    assert "are more than 90 days old" in text
    prices = [each["price_microusd_per_hour"] for each in shown("--gpu", "a100")]
    assert prices == sorted(prices)


def test_a_machine_is_listed_once_unless_regions_are_named() -> None:
    once = shown("--cloud", "lambda", "--gpu", "A10")
    assert [each["name"] for each in once] == ["gpu_1x_a10"]
    named = shown("--cloud", "lambda", "--gpu", "A10", "--region", "us-east-1", "--region", "us-west-1")
    assert sorted(each["region"] for each in named) == ["us-east-1", "us-west-1"]


def test_markets_counts_and_order_can_be_chosen() -> None:
    spot = shown("--gpu", "H100:8", "--spot", "--sort", "gpu-price")
    assert all(each["interruptible"] and each["gpu_count"] >= 8 for each in spot)
    assert {each["cloud"] for each in spot} == {"ec2", "ecs"}
    assert not any(each["interruptible"] for each in shown("--gpu", "L4", "--on-demand"))
    kinds = [each["gpu_kind"] for each in shown("--cloud", "modal", "--sort", "gpu")]
    assert kinds == sorted(kinds)


def test_settings_change_the_prices(home: Path) -> None:
    before = shown("--cloud", "lambda", "--gpu", "A10")[0]["price_microusd_per_hour"]
    (home / "config.toml").write_text(
        '[catalog]\ndiscounts = ["lambda=50%"]\ncredits = ["lambda=20"]\nown_prices = ["lab=0.35"]\nstale_days = 4000\n'
    )
    after = shown("--cloud", "lambda", "--gpu", "A10")[0]
    assert (after["price_microusd_per_hour"], after["list_microusd_per_hour"]) == (before / 2, before)
    assert (after["credit_microusd"], after["stale"]) == (20_000_000, False)
    assert "lab: $0.3500 per hour (your own machines, from catalog.own_prices)" in ran("clouds").stdout


def test_every_cloud_is_listed_with_its_billing() -> None:
    places = {each["cloud"]: each for each in json.loads(ran("clouds", "--json").stdout)}
    assert (places["local"]["owned"], places["canopywave"]["offers"]) == (True, 0)
    assert places["ecs"]["offers"] == places["ec2"]["offers"] > 1000
    assert "none; import a price list" in ran("clouds").stdout


def test_an_imported_list_replaces_prices_and_reports_skipped_lines(home: Path) -> None:
    (home / "vms.csv").write_text(SKY + "mine,H100,8,192,2048,9.5,,us-1\nhost,,,8,32,0.2,,us-1\n")
    said = ran("import", str(home / "vms.csv"), "--cloud", "lambda", "--as-of", "2026-11-01").stdout
    assert said == "Imported 1 offer of lambda.\nSkipped 1 line: no GPU\n"
    found = shown("--cloud", "lambda", "--gpu", "H100:8")[0]
    assert (found["name"], found["source"], found["recorded"]) == ("mine", "import of vms.csv", "2026-11-01")


def test_a_list_with_an_error_is_rejected_completely(home: Path) -> None:
    (home / "vms.csv").write_text(SKY + "good,H100,8,192,2048,9.5,,us-1\nbad,H100,8,192,2048,much,,us-1\n")
    done = ran("import", str(home / "vms.csv"), "--cloud", "canopywave")
    assert isinstance(done.exception, InvalidSpec)
    assert "vms.csv:3 Price: 'much' is not a number" in str(done.exception)
    assert shown("--cloud", "canopywave") == []


def test_an_update_leaves_imports_alone_and_an_empty_one_changes_nothing(home: Path) -> None:
    (home / "mine.csv").write_text(
        HEADING + "canopywave,mine,H100,8,192,2048,us-1,on-demand,9,me,2026-11-01\n"
    )
    (home / "new.csv").write_text(
        HEADING + "canopywave,new,H100,8,192,2048,us-1,on-demand,8,list,2026-11-10\n"
    )
    (home / "empty.csv").write_text(HEADING)
    assert ran("import", str(home / "mine.csv")).stdout == "Imported 1 offer of canopywave.\n"
    assert ran("update", str(home / "new.csv")).stdout == "Updated 1 offer of canopywave.\n"
    assert isinstance(ran("update", str(home / "empty.csv")).exception, InvalidSpec)
    assert [each["name"] for each in shown("--cloud", "canopywave")] == ["new", "mine"]


def test_the_day_of_a_file_is_the_day_of_its_prices(home: Path) -> None:
    import os

    (home / "vms.csv").write_text(SKY + "mine,H100,8,192,2048,9.5,,us-1\n")
    os.utime(home / "vms.csv", (1_760_000_000, 1_760_000_000))
    ran("import", str(home / "vms.csv"), "--cloud", "canopywave")
    assert shown("--cloud", "canopywave")[0]["recorded"] == "2025-10-09"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("show", "--gpu", "A100x"), "Unknown GPU type 'A100x'. Did you mean 'A100'?"),
        (("show", "--gpu", "a:b:c"), "is not a GPU"),
        (("show", "--cloud", "lamda"), "There is no cloud 'lamda'. Did you mean 'lambda'?"),
        (("update", "http://example.org/prices.csv"), "over https only"),
        (("update", "file:///etc/hostname"), "over https only"),
        (("sohw",), "Did you mean 'show'?"),
    ],
)
def test_a_misspelt_name_gets_a_suggestion(words: tuple[str, ...], said: str) -> None:
    done = ran(*words)
    assert done.exit_code == 2
    assert said in done.output


def test_a_list_needs_its_cloud_and_a_valid_date(home: Path) -> None:
    (home / "vms.csv").write_text(SKY + "mine,H100,8,192,2048,9.5,,us-1\n")
    assert "Name the cloud with --cloud" in ran("import", str(home / "vms.csv")).output
    assert "is not a date" in ran("import", str(home / "vms.csv"), "--as-of", "today").output


def test_a_missing_file_is_reported() -> None:
    assert isinstance(ran("update", "nowhere.csv").exception, NotFound)


def test_no_matching_offer_prints_a_message() -> None:
    assert ran("show", "--gpu", "K80").stdout.startswith("No offer of K80 matches.")


def test_an_unknown_region_is_refused_with_the_closest_one(home: Path) -> None:
    shown = ran("show", "--region", "us-eats-1")
    assert shown.exit_code == 2
    assert "There is no region 'us-eats-1'. Did you mean 'us-east-1'?" in shown.output
    assert "There is no region 'mars'." in ran("show", "--region", "mars").output
    assert ran("show", "--region", "us-east-1").exit_code == 0
