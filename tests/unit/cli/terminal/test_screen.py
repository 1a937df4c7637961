"""What people see: lists, a job in words, the dashboard, events, the demo's report."""

import pytest

from anygpu.cli.terminal.screen import LiveScreen, Screen, visible_text


def test_on_a_pipe_bytes_pass_as_they_are_and_remarks_go_elsewhere(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    screen = Screen()
    screen.log(b"\xff\x00 10%\r")
    screen.message("waiting")
    shown = capfdbinary.readouterr()
    assert (shown.out, shown.err) == (b"\xff\x00 10%\r", b"anygpu: waiting\n")


def test_on_a_terminal_whole_lines_scroll_and_the_rest_stays_below(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    screen = LiveScreen(lambda width: "STATUS")
    screen.log(b"one\ntw")
    shown = capfdbinary.readouterr()
    assert shown.out == b"one\n"
    assert shown.err.endswith(b"tw\nSTATUS")


def test_the_status_is_erased_before_anything_is_printed(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    screen = LiveScreen(lambda width: "STATUS")
    screen.refresh()
    screen.message("told")
    assert capfdbinary.readouterr().err.startswith(b"STATUS\r\x1b[Janygpu: told\n")


def test_an_unfinished_line_is_not_lost_at_the_end(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    screen = LiveScreen(lambda width: "STATUS")
    screen.log(b"no end")
    screen.close()
    assert capfdbinary.readouterr().out == b"no end\n"


def test_a_rewritten_line_shows_what_a_terminal_would() -> None:
    assert visible_text(b"10%\r 20%\r 30%") == " 30%"
    assert visible_text(b"10%\r 20%\r") == " 20%"
    assert visible_text(b"\x1b[31mred") == "[31mred"
