import pytest

from anygpu.cli.terminal.screen import LiveScreen, Screen, visible_text


def test_in_a_pipe_output_is_unchanged_and_messages_go_to_stderr(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    screen = Screen()
    screen.log(b"\xff\x00 10%\r")
    screen.message("waiting")
    shown = capfdbinary.readouterr()
    assert (shown.out, shown.err) == (b"\xff\x00 10%\r", b"anygpu: waiting\n")


def test_on_a_terminal_complete_lines_scroll_above_the_status(
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


def test_an_incomplete_line_is_printed_at_the_end(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    screen = LiveScreen(lambda width: "STATUS")
    screen.log(b"no end")
    screen.close()
    assert capfdbinary.readouterr().out == b"no end\n"


def test_a_rewritten_line_shows_its_last_version() -> None:
    assert visible_text(b"10%\r 20%\r 30%") == " 30%"
    assert visible_text(b"10%\r 20%\r") == " 20%"
    assert visible_text(b"\x1b[31mred\x1b[0m") == "red"


def test_messages_and_the_status_line_show_control_characters(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    screen = LiveScreen(lambda width: "loss\x1b[2J=1")
    screen.refresh()
    screen.message("lost: \x1b]0;x\x07")
    shown = capfdbinary.readouterr().err
    assert b"loss\\x1b[2J=1" in shown
    assert b"anygpu: lost: \\x1b]0;x\\x07\n" in shown


def test_raw_output_reaches_the_screen_unchanged(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    screen = Screen(raw=True)
    screen.log(b"\x1b[2J")
    screen.close()
    assert capfdbinary.readouterr().out == b"\x1b[2J"
