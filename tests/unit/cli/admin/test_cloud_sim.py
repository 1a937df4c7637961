from pathlib import Path

import pytest
from click.testing import CliRunner

from anygpu.cli.admin.cloud_sim import cloud_sim_command


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--boot", "soon"], "'soon' is not a duration"),
        (["--speed", "0"], "--speed is not above zero"),
        (["--trace", "nowhere.json"], "does not exist"),
        (["--seed", "x"], "'x' is not a valid integer"),
    ],
)
def test_an_invalid_option_is_explained(arguments: list[str], says: str) -> None:
    done = CliRunner().invoke(cloud_sim_command, arguments)
    assert (done.exit_code, says in done.output) == (2, True), done.output


def test_an_invalid_trace_file_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    path.write_text("[1, 0]")
    done = CliRunner().invoke(cloud_sim_command, ["--trace", str(path)])
    assert (done.exit_code, "gap_seconds" in done.output) == (2, True)
