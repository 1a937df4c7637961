"""`plan` before, `explain` afterwards, with a real server and a real job."""

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.cli.conftest import Shell

TRAINS = (
    "import torch, torchvision",
    "device = 'cuda' if torch.cuda.is_available() else 'cpu'",
    "model = torchvision.models.resnet18().to(device)",
    "data = torchvision.datasets.CIFAR10('data')",
    "loader = torch.utils.data.DataLoader(data, batch_size=128)",
    "for epoch in range(5):",
    "    for x, y in loader: model(x).sum().backward()",
)


def test_a_plan_has_own_machines_and_catalog_offers_and_starts_nothing(anygpu: Shell) -> None:
    anygpu.write("train.py", *TRAINS)
    before = len(anygpu.json("ls")["jobs"])
    told = json.loads(anygpu("plan", "--json", "--limit", "0", "train.py").stdout)
    backends = {offer["backend"]: offer["configured"] for offer in told["offers"]}
    assert backends["local"] is True
    assert backends["runpod"] is False
    assert told["choice"]["backend"] == "local"
    assert {"what": "model", "value": "resnet18"}.items() <= told["workload"][1].items()
    assert len(anygpu.json("ls")["jobs"]) == before
    said = anygpu("plan", "--on", "fastest", "--gpu", "1", "train.py").stdout.decode()
    assert "fastest:" in said
    assert "* needs an account" in said
    assert (
        "has no GPU, the job needs 1"
        in anygpu("plan", "--gpu", "1", "--rejected", "train.py").stdout.decode()
    )


def test_the_native_request_of_an_offer_is_shown(anygpu: Shell) -> None:
    anygpu.write("train.py", *TRAINS)
    told = json.loads(anygpu("plan", "--native", "--json", "train.py").stdout)
    assert told["offer"]["backend"] == "local"
    assert [request["language"] for request in told["requests"]] == ["json", "sh"]
    refused = anygpu("plan", "--native", "--offer", "no-such", "train.py", code=65)
    assert b"No offer 'no-such' of a configured backend fits this job" in refused.stderr


def test_a_native_request_needs_a_server(alone: Shell) -> None:
    alone.write("train.py", *TRAINS)
    refused = alone("plan", "--native", "train.py", code=None)
    assert refused.returncode != 0
    assert b"anygpu up" in refused.stderr


def test_a_plan_is_made_without_a_server_too(alone: Shell) -> None:
    alone.write("train.py", *TRAINS)
    said = alone("plan", "train.py").stdout.decode()
    assert "No server is running" in said
    assert "cheapest:" in said


def test_explain_shows_the_placement_and_the_prediction_error(anygpu: Shell) -> None:
    anygpu.write("long.py", "import time", "time.sleep(4)")
    anygpu("run", "-n", "explained", "--set", "placement.expected_duration=4s", "long.py")
    said = anygpu("explain", "explained").stdout.decode()
    assert "explained was placed on local" in said
    assert "the duration given with the job" in said
    assert "Actual: " in said
    told = anygpu.json("explain", "explained")
    assert told["predicted"]["basis"] == "said"
    assert told["predicted"]["wall_s"] == 5  # what was said, and a second around it
    assert told["actual"]["seconds"] > 4
    assert told["plan"]["choice"]["backend"] == "local"


def test_an_invalid_plan_request_names_the_field(anygpu: Shell, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(json.dumps({"scrpt": "train.py"}))
    refused = anygpu("plan", str(tmp_path / "bad.json"), code=65)
    assert b"scrpt" in refused.stderr


def test_a_plan_without_a_fitting_offer_fails(anygpu: Shell) -> None:
    anygpu.write("t.py", "print(1)")
    assert b"No offer fits" in anygpu("plan", "--gpu", "A100:640", "t.py", code=1).stdout
    told = json.loads(anygpu("plan", "--json", "--gpu", "A100:640", "t.py", code=1).stdout)
    assert (told["short"], told["unknown"]) == ([], [])


@pytest.mark.parametrize("machine", ["anygpu", "alone"], ids=["with a server", "without a server"])
def test_an_unknown_region_is_named_with_the_closest_one(
    machine: str, request: pytest.FixtureRequest
) -> None:
    shell: Shell = request.getfixturevalue(machine)
    shell.write("t.py", "print(1)")
    done = shell("plan", "--region", "us-eats-1", "t.py", code=1)
    assert b"No offer has the region 'us-eats-1'. Did you mean 'us-east-1'?" in done.stderr
    done = shell("plan", "--region", "mars", "t.py", code=1)
    assert b"No offer has the region 'mars'. `anygpu catalog show` lists regions." in done.stderr


def test_a_script_that_just_ran_is_predicted_from_that_run(anygpu: Shell) -> None:
    anygpu.write("quick.py", "import time", "time.sleep(1.5)", "print('done')")
    anygpu("run", "-n", "quick", "quick.py")
    until = time.monotonic() + 60
    while (told := planned(anygpu, "quick.py"))["short"][0]["basis"] != "history":
        assert time.monotonic() < until, told["short"][0]  # outcomes are recorded after the end of the job
    local, *others = told["short"]
    assert (local["backend"], 1 < local["seconds"]["expected"] < 20) == ("local", True)
    assert local["confidence"] != "low"
    assert all(each["basis"] == "history" and each["seconds"]["expected"] < 1200 for each in others)
    assert [row["where"] for row in told["workload"] if row["what"] == "time"] == ["past runs"]


def test_offers_that_a_person_can_use_come_first(anygpu: Shell) -> None:
    anygpu.write("t.py", "print(1)")
    offers = planned(anygpu, "--limit", "0", "t.py")["offers"]
    usable = [bool(each["has_backend"] or each["configured"]) for each in offers]
    assert offers[0]["backend"] == "local"
    assert usable[:100] == [True] * 100
    assert False in usable
    assert b"anygpu backend add runpod --kind runpod" in b" ".join(anygpu("plan", "t.py").stdout.split())


def planned(anygpu: Shell, *words: str) -> Any:
    return json.loads(anygpu("plan", "--json", *words).stdout)
