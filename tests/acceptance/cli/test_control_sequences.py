"""A job cannot control the terminal of the person who looks at it."""

import os
import pty
from typing import Any

import pytest
from tests.acceptance.cli.conftest import Shell

HOSTILE = (
    "import sys, anygpu",
    "anygpu.log({'loss\\x1b[2J': 0.5, 'acc\\u202e': 0.25}, step=1)",
    "anygpu.progress(step=1, message='\\x1b]0;owned\\x07half \\u202e')",
    "print('\\x1b[2J\\x1b]0;owned\\x07\\x9b2J visible \\u202e \\x1b[31mred\\x1b[0m')",
    "sys.stdout.write(' 10%\\r 20%\\r100%\\n')",
    "sys.exit('Error: \\x1b[2J\\x1b]8;;http://x\\x07bad \\u202e')",
)
ALLOWED_COLOURS = (b"\x1b[31m", b"\x1b[0m", b"\x1b[1m", b"\x1b[2m", b"\x1b[36m")


@pytest.fixture
def hostile(anygpu: Shell) -> Shell:
    anygpu.write("hostile.py", *HOSTILE)
    anygpu("run", "--name", "hostile", "--tag", "a\u202eb", "hostile.py", code=1)
    return anygpu


@pytest.mark.parametrize(
    "words",
    [
        ("show", "hostile"),
        ("show", "--spec", "hostile"),
        ("ls",),
        ("logs", "hostile"),
        ("logs", "-f", "hostile"),
        ("watch", "--once", "hostile"),
        ("watch", "hostile"),
        ("events", "hostile"),
        ("show", "hostile", "--json"),
        ("logs", "hostile", "--json"),
    ],
    ids=" ".join,
)
def test_no_command_prints_control_sequences_of_a_job(hostile: Shell, words: tuple[str, ...]) -> None:
    done = hostile(*words)
    assert_harmless(done.stdout + done.stderr)
    on_terminal = run_on_terminal(hostile, *words)
    for colour in ALLOWED_COLOURS:
        on_terminal = on_terminal.replace(colour, b"")
    assert b"owned\x07" not in on_terminal
    assert b"\x1b[2J" not in on_terminal
    assert b"\x1b]" not in on_terminal
    assert_no_tricks(on_terminal)


def test_the_run_itself_prints_no_control_sequences(anygpu: Shell) -> None:
    anygpu.write("hostile.py", *HOSTILE)
    done = anygpu("run", "hostile.py", code=1)
    assert_harmless(done.stdout + done.stderr)
    assert b" 10%\r 20%\r100%\n" in done.stdout, "progress bars are kept"
    shown = run_on_terminal(anygpu, "run", "hostile.py")
    assert b"\x1b]" not in shown
    assert b"\x1b[2J" not in shown
    assert b"\x1b[31mred\x1b[0m" in shown, "colours are kept on a terminal"
    assert_no_tricks(shown)


def test_raw_output_is_unchanged(hostile: Shell) -> None:
    assert b"\x1b[2J\x1b]0;owned\x07" in hostile("logs", "--raw", "hostile").stdout
    assert b"\x1b[2J\x1b]0;owned\x07" in hostile("run", "--raw", "hostile.py", code=1).stdout


def assert_harmless(printed: bytes) -> None:
    assert b"\x1b" not in printed
    assert_no_tricks(printed)


def assert_no_tricks(printed: bytes) -> None:
    assert b"\xc2\x9b" not in printed
    assert "\u202e".encode() not in printed


def run_on_terminal(shell: Any, *words: str) -> bytes:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(shell.directory)
        environ = {**shell.environ, "TERM": "xterm", "COLUMNS": "150"}
        os.execve(shell.command, [shell.command, *words], environ)
    printed = b""
    while True:
        try:
            data = os.read(terminal, 65536)
        except OSError:
            break
        if not data:
            break
        printed += data
    os.close(terminal)
    os.waitpid(pid, 0)
    return printed
