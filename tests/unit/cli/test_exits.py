import click
import pytest

from anygpu.cli import exits
from anygpu.cli.admin.move import server_command
from anygpu.errors import Internal, InvalidSpec, NoCapacity, NotFound, Problem, ServerUnreachable, every_error
from anygpu.installation import command_name
from anygpu.sdk.embedded import ServerFailed
from anygpu.sdk.job import JobFailed
from anygpu.settings import InvalidSettings


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (NotFound("x"), 66),
        (InvalidSpec([Problem("a", 1, "wrong")]), 65),
        (ServerUnreachable(), 69),
        (NoCapacity(), 75),
        (Internal("x"), 70),
        (click.UsageError("x"), 2),
        (KeyboardInterrupt(), 130),
        (FileNotFoundError(2, "No such file", "a.txt"), 1),
        (ValueError("odd"), 70),
    ],
)
def test_each_error_has_an_exit_code_and_no_traceback(
    error: BaseException, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exits.report_error(error) == code
    said = capsys.readouterr().err
    assert said.startswith("anygpu: ")
    assert "Traceback" not in said


def test_every_mapped_error_code_exists() -> None:
    elsewhere = {JobFailed.code, ServerFailed.code, InvalidSettings.code}
    assert set(exits.EXIT_CODES) <= {kind.code for kind in every_error()} | elsewhere


def test_a_usage_error_is_a_complete_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    exits.report_error(click.BadParameter("'long' is not a duration", param_hint="--work"))
    hint = f"Try `{command_name()} --help`."
    assert capsys.readouterr().err.endswith(f"'long' is not a duration. {hint}\n")


def test_a_list_of_similar_options_ends_with_one_full_stop(capsys: pytest.CaptureFixture[str]) -> None:
    error = click.NoSuchOption("--gpuu", possibilities=["--gpu", "--cpus"])
    assert exits.report_error(error) == 2
    assert "?)." not in capsys.readouterr().err


def test_a_group_without_a_command_prints_its_help_unchanged(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(click.exceptions.NoArgsIsHelpError) as caught:
        server_command.main([], prog_name="anygpu server", standalone_mode=False)
    assert exits.report_error(caught.value) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("Usage: anygpu server")
    assert "Try `anygpu" not in shown
