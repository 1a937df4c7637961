"""`anygpu config show`."""

import click
import pytest
from click.testing import CliRunner

from anygpu.cli.admin.config import config_command


def test_a_setting_that_does_not_exist_is_answered_with_the_nearest() -> None:
    with pytest.raises(click.UsageError, match=r"Did you mean 'server\.port'"):
        CliRunner().invoke(
            config_command, ["show", "servr.port"], standalone_mode=False, catch_exceptions=False
        )


def test_a_section_is_all_of_its_settings() -> None:
    said = CliRunner().invoke(config_command, ["show", "queue."]).output
    assert "queue.preempt" in said
    assert "server.port" not in said
