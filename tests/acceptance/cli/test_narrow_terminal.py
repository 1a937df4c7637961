"""Every table, bar and chart fits a terminal of 40 columns."""

from dataclasses import replace

import pytest
from tests.acceptance.cli.conftest import Shell

COMMANDS = (
    "ls",
    "show narrow",
    "watch --once narrow",
    "events narrow",
    "queue",
    "explain narrow",
    "plan t.py",
    "plan --gpu A100:64 t.py",
    "plan --gpu A100 --rejected t.py",
    "backend ls",
    "backend kinds",
    "backend kinds ec2",
    "catalog show",
    "catalog clouds",
    "trainer ls",
    "trainer show yolo",
    "token ls",
    "doctor",
    "accuracy",
)
LINES = (
    "import time",
    "for epoch in range(1, 4):",
    "    print(f'epoch {epoch}/3 loss={1 / epoch:.3f} accuracy_of_the_validation_set={epoch / 4}')",
)


@pytest.fixture
def narrow(anygpu: Shell) -> Shell:
    anygpu.write("t.py", *LINES)
    anygpu("run", "-n", "narrow", "-t", "a-tag-with-a-long-name-of-more-than-40-characters", "t.py")
    return replace(anygpu, environ={**anygpu.environ, "COLUMNS": "40"})


def test_no_line_is_longer_than_the_terminal_is_wide(narrow: Shell) -> None:
    too_long = {}
    for command in COMMANDS:
        lines = narrow(*command.split(), code=None).stdout.decode().splitlines()
        assert lines, command
        if over := [line for line in lines if len(line) > 40]:
            too_long[command] = over
    assert too_long == {}
