import click
import pytest
from click.testing import CliRunner
from tests.unit.cli.builders import parse_run

from anygpu.cli.jobs.run import run_command


def test_arguments_after_the_script_belong_to_the_script() -> None:
    spec = parse_run("--name", "x", "train.py", "--epochs", "3", "--name", "y", "-d")
    assert spec == {"script": "train.py", "args": ["--epochs", "3", "--name", "y", "-d"], "name": "x"}


def test_placement_and_cost_options_may_follow_the_script() -> None:
    spec = parse_run("train.py", "--epochs", "3", "--on", "cheapest", "--max-cost=10", "--deadline", "6h")
    assert spec["args"] == ["--epochs", "3"]
    assert spec["placement"] == {"strategy": "cheapest"}
    assert spec["limits"] == {"max_cost": "10", "deadline": "6h"}


def test_everything_after_two_dashes_belongs_to_the_script() -> None:
    assert parse_run("train.py", "--lr", "1", "--", "--on", "cheapest")["args"] == [
        "--lr",
        "1",
        "--on",
        "cheapest",
    ]


def test_two_dashes_first_run_any_command() -> None:
    assert parse_run("--gpu", "1", "--", "make", "-j2", "--on") == {
        "name": "make",
        "command": ["make", "-j2", "--on"],
        "resources": {"gpu": "1"},
    }


def test_an_option_after_the_script_needs_a_value() -> None:
    with pytest.raises(click.BadOptionUsage):
        parse_run("train.py", "--on")


def test_every_option_sets_its_spec_field() -> None:
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


def test_help_is_printed_without_arguments() -> None:
    asked = CliRunner().invoke(run_command, ["--help"])
    assert (asked.exit_code, "Run a script, a command or a job file" in asked.output) == (0, True)


def test_an_option_without_value_refers_to_the_help() -> None:
    with pytest.raises(click.UsageError) as caught:
        parse_run("train.py", "--max-cost")
    assert caught.value.ctx is not None
    assert caught.value.ctx.command is run_command
