"""`anygpu costs` shows the sums of the API: as a table, as CSV, as JSON, and a comparison of providers."""

import csv
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.acceptance.cli.conftest import Shell, environment, stop
from tests.acceptance.cli.rented_backend import install

PRICE = 36_000_000_000  # micro-dollars per hour: ten dollars per second


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    place = tmp_path_factory.mktemp("costs")
    environ = environment(place)
    environ["PYTHONPATH"] = str(install(place / "plugin"))
    config = Path(environ["ANYGPU_CONFIG"])
    config.parent.mkdir()
    record = json.dumps(str(place / "rented"))
    config.write_text(f'[backends.cloud]\nkind = "rented"\nrecord = {record}\nprice = {PRICE}\n')
    shell = Shell(place, environ)
    shell("up", "-d")
    yield shell
    stop(environ)


def test_costs_are_shown_by_any_grouping(shell: Shell) -> None:
    empty = shell("costs").stdout.decode()
    assert "Nothing has used a machine" in empty
    words = ("--no-workdir", "--name", "paid", "--tag", "night", "--on", "cloud", "--", "sleep", "1.1")
    shell("run", *words)
    shell("run", "--", "sleep", "0.1")
    costs = shell.json("costs", "--by", "backend")
    total = costs["costs"]["total"]["microusd"]
    assert total == shell.json("show", "paid")["cost_microusd"] >= PRICE // 3600
    assert costs["summary"]["total"]["microusd"] == total
    for by, key in (("day", "-"), ("person", ""), ("backend", "cloud"), ("gpu", "T4"), ("tag", "night")):
        lines = shell("costs", "--by", by).stdout.decode()
        assert f"${total / 1_000_000:.2f}" in lines
        assert key in lines
    rows = list(csv.DictReader(shell("costs", "--by", "tag", "--csv").stdout.decode().splitlines()))
    assert {row["tag"] for row in rows} == {"night", "", "total"}
    old = shell("costs", "--from", "2020-01-01", "--to", "2020-01-31", "--timezone", "Europe/Berlin")
    assert "2020-01-01 to 2020-01-31: Nothing has used a machine" in old.stdout.decode()


def test_a_job_is_compared_at_all_providers(shell: Shell) -> None:
    shell("run", "--name", "compared", "--", "true")
    lines = shell("costs", "--compare", "compared").stdout.decode()
    assert lines.startswith("PROVIDER")
    assert "local" in lines
    assert "Recommended:" in lines
    assert shell.json("costs", "--compare", "compared")["name"] == "compared"


def test_wrong_options_say_what_to_do(shell: Shell) -> None:
    assert b"Use either --csv or --json" in shell("costs", "--csv", "--json", code=2).stderr
    assert b"does not match the format" in shell("costs", "--from", "yesterday", code=2).stderr
    answer = shell("costs", "--timezone", "Nowhere", code=None)
    assert answer.returncode != 0
    assert b"is not a time zone" in answer.stderr + answer.stdout
