import click
import pytest
from click.testing import CliRunner

from anygpu.cli.admin.config import config_command


def test_an_unknown_setting_gets_a_suggestion() -> None:
    with pytest.raises(click.UsageError, match=r"Did you mean 'server\.port'"):
        CliRunner().invoke(
            config_command, ["show", "servr.port"], standalone_mode=False, catch_exceptions=False
        )


def test_a_prefix_shows_its_section() -> None:
    said = CliRunner().invoke(config_command, ["show", "queue."]).output
    assert "queue.preempt" in said
    assert "server.port" not in said
