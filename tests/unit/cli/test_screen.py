import pytest

from anygpu.cli.screen import LiveScreen, Screen


def test_on_a_pipe_bytes_pass_as_they_are_and_remarks_go_elsewhere(
    capfdbinary: pytest.CaptureFixture[bytes],
) -> None:
    screen = Screen()
    screen.log(b"\xff\x00 10%\r")
    screen.remark("waiting")
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
    screen.remark("told")
    assert capfdbinary.readouterr().err.startswith(b"STATUS\r\x1b[Janygpu: told\n")


def test_an_unfinished_line_is_not_lost_at_the_end(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    screen = LiveScreen(lambda width: "STATUS")
    screen.log(b"no end")
    screen.close()
    assert capfdbinary.readouterr().out == b"no end\n"
