"""A spec mapping becomes a command that is safe to paste."""

from typing import Any

import pytest

from anygpu.spec.render.command_line import shell_command


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"script": "train.py", "args": ["--lr", "0.1"]}, "train.py --lr 0.1"),
        ({"script": "train.py", "args": ["--on", "x"]}, "train.py -- --on x"),
        ({"command": ["make", "all"]}, "-- make all"),
        ({"command": "make all"}, "--set 'command=make all'"),
        ({"name": "a", "tags": ["b", "c"]}, "--name a --tag b --tag c"),
        ({"placement": {"paid": False}}, "--no-paid"),
        ({"workdir": {"snapshot": True}}, "--snapshot"),
        (
            {"placement": {"strategy": "preferred", "allowed": ["lab", "ec2"], "fallbacks": ["lab", "ec2"]}},
            "--on lab,ec2",
        ),
        ({"secrets": {"HF_TOKEN": "HF_TOKEN", "KEY": "other"}}, "--secret HF_TOKEN --secret KEY=other"),
        ({"requirements": "requirements.txt"}, "--requirements requirements.txt"),
        ({"requirements": ["torch", "numpy"]}, "--requirements torch --requirements numpy"),
        ({"config": {"epochs": 3}}, "--config epochs=3"),
    ],
)
def test_fields_with_an_option_use_it(mapping: dict[str, Any], words: str) -> None:
    assert shell_command(mapping) == f"anygpu run {words}"


@pytest.mark.parametrize(
    ("mapping", "words"),
    [
        ({"name": "$(id)"}, "--name '$(id)'"),
        ({"name": "-x"}, "--name=-x"),
        ({"env": {"A": "b; c"}}, "--env 'A=b; c'"),
        ({"env": {"A": "\x1b[31m"}}, "--set 'env.A=\"\\u001b[31m\"'"),
        ({"tags": ["a\nb"]}, "--set 'tags=[\"a\\nb\"]'"),
        ({"requirements": ["requirements.txt"]}, "--set 'requirements=[\"requirements.txt\"]'"),
    ],
)
def test_values_that_a_shell_or_terminal_would_interpret_are_quoted(
    mapping: dict[str, Any], words: str
) -> None:
    command = shell_command(mapping)
    assert command == f"anygpu run {words}"
    assert command.isprintable()
