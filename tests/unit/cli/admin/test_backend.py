import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from anygpu.cli.admin.backend import backend_command, check_lines, problem_lines

FOUND: dict[str, Any] = {
    "name": "pods",
    "valid": True,
    "why": "key of me@lab",
    "quota": "4 GPUs",
    "balance_microusd": 12_340_000,
    "offers": 12,
    "refused": 2,
    "refused_why": "dearer than allowed",
    "cheapest_gpu": {
        "name": "g5.xlarge",
        "region": "eu-west-1",
        "gpu": "A10G",
        "gpus": 1,
        "gpu_memory_gib": 24,
        "interruptible": True,
        "price_microusd_per_hour": 401_000,
    },
}


def test_a_check_is_one_line_followed_by_details() -> None:
    assert check_lines(FOUND, colour=False) == [
        "ok    pods  key of me@lab",
        "      quota: 4 GPUs",
        "      balance: $12.34",
        "      12 offers, cheapest GPU A10G (g5.xlarge in eu-west-1) at $0.4010/h spot",
        "      2 offers that this backend does not allow: dearer than allowed",
    ]


def test_a_failed_check_shows_the_reason_and_no_offers() -> None:
    nothing = {"quota": "", "balance_microusd": None, "offers": 0, "refused": 0, "cheapest_gpu": None}
    found = {**FOUND, **nothing, "valid": False, "why": "the key is wrong"}
    assert check_lines(found, colour=False) == ["fail  pods  the key is wrong"]
    (painted,) = check_lines(found, colour=True)
    assert painted == "\x1b[31mfail\x1b[0m  pods  the key is wrong"


def test_further_lines_of_a_result_are_indented() -> None:
    lines = check_lines({**FOUND, "why": "broker of lab\nno worker is alive"}, colour=False)
    assert lines[:2] == ["ok    pods  broker of lab", "      no worker is alive"]


def test_the_last_error_of_a_backend_has_its_age() -> None:
    at = (datetime.now(UTC) - timedelta(minutes=5, seconds=1)).isoformat()
    problem = {"request": "offers", "message": "the key is wrong", "at": at}
    (line,) = problem_lines({"name": "lab", "health": {"problems": [problem]}}, colour=False)
    assert re.fullmatch(r"lab: listing offers failed 5m\d\ds ago: the key is wrong", line)
    assert problem_lines({"name": "lab", "health": {"problems": []}}, colour=False) == []


def test_an_empty_balance_is_shown() -> None:
    assert "      balance: $0" in check_lines({**FOUND, "balance_microusd": 0}, colour=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--kind", "lambda", "--credential", "api_key=abc"], "do not put a credential there"),
        (["--kind", "lambda", "--credential", "api_key=-"], "The credential api_key is empty"),
        (["--kind", "lambda", "--set", "regions"], "does not set an option. Write OPTION=VALUE"),
        ([], "Missing --kind"),
    ],
)
def test_invalid_options_are_rejected_before_any_request(
    words: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANYGPU_STATE", str(tmp_path))
    monkeypatch.setenv("ANYGPU_CONFIG", str(tmp_path / "config.toml"))
    done = CliRunner().invoke(backend_command, ["add", "cloud", *words], standalone_mode=False)
    assert isinstance(done.exception, click.UsageError)
    assert said in done.exception.format_message()
    assert "abc" not in done.exception.format_message()
    assert not list(tmp_path.iterdir())
