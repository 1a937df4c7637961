"""Which words of `anygpu run` are ours, and which are the script's."""

import click
import pytest
from click.testing import CliRunner
from tests.unit.cli.builders import parse_run

from anygpu.cli.jobs.run import run_command


def test_everything_after_the_script_is_the_scripts() -> None:
    spec = parse_run("--name", "x", "train.py", "--epochs", "3", "--name", "y", "-d")
    assert spec == {"script": "train.py", "args": ["--epochs", "3", "--name", "y", "-d"], "name": "x"}


def test_where_and_how_much_may_also_follow_the_script() -> None:
    spec = parse_run("train.py", "--epochs", "3", "--on", "cheapest", "--max-cost=10", "--deadline", "6h")
    assert spec["args"] == ["--epochs", "3"]
    assert spec["placement"] == {"strategy": "cheapest"}
    assert spec["limits"] == {"max_cost": "10", "deadline": "6h"}


def test_two_dashes_keep_everything_the_scripts() -> None:
    assert parse_run("train.py", "--lr", "1", "--", "--on", "cheapest")["args"] == [
        "--lr",
        "1",
        "--on",
        "cheapest",
    ]


def test_two_dashes_first_mean_any_command() -> None:
    assert parse_run("--gpu", "1", "--", "make", "-j2", "--on") == {
        "name": "make",
        "command": ["make", "-j2", "--on"],
        "resources": {"gpu": "1"},
    }


def test_a_flag_that_lacks_its_value_is_ours_to_refuse() -> None:
    with pytest.raises(click.BadOptionUsage):
        parse_run("train.py", "--on")


def test_every_flag_lands_at_its_place() -> None:
    spec = parse_run(
        *(
            "--cpus",
            "2",
            "--memory",
            "4GiB",
            "--env",
            "A=1",
            "--secret",
            "T",
            "--tag",
            "t",
            "--output",
            "o/**",
        ),
        *("--checkpoint", "c/*", "--resume-arg", "--resume", "--resume-arg", "{path}", "--timeout", "1h"),
        *("--max-retries", "0", "--priority", "5", "--key", "k", "--set", "checkpoint.keep=9", "train.py"),
    )
    assert spec["resources"] == {"cpus": "2", "memory": "4GiB"}
    assert (spec["env"], spec["secrets"], spec["tags"], spec["outputs"]) == (
        {"A": "1"},
        {"T": "T"},
        ["t"],
        ["o/**"],
    )
    assert spec["checkpoint"] == {"paths": ["c/*"], "resume_args": ["--resume", "{path}"], "keep": 9}
    assert (spec["limits"], spec["priority"]) == ({"timeout": "1h", "max_retries": "0"}, "5")
    assert spec["idempotency_key"] == "k"


def test_help_is_given_to_who_asks_for_it() -> None:
    asked = CliRunner().invoke(run_command, ["--help"])
    assert (asked.exit_code, "Run a script, a command or a job file" in asked.output) == (0, True)


def test_an_option_without_its_value_names_the_help_of_its_command() -> None:
    with pytest.raises(click.UsageError) as caught:
        parse_run("train.py", "--max-cost")
    assert caught.value.ctx is not None
    assert caught.value.ctx.command is run_command
