"""One file, environment overrides, defaults; every value knows where it came from."""

import subprocess
import sys
from dataclasses import FrozenInstanceError
from pathlib import Path

import pytest

from anygpu.settings import InvalidSettings, config_path, environment_name, load, setting_rows
from anygpu.wiring.control import control_policy

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "settings.md"


def written(folder: Path, text: str) -> Path:
    path = folder / "config.toml"
    path.write_text(text)
    return path


def test_defaults_need_no_file(tmp_path: Path) -> None:
    settings = load(environ={"HOME": str(tmp_path)})
    assert settings.state == tmp_path / ".local/share/anygpu"
    assert settings.agent.lease_s == 60
    assert settings.embedded
    assert settings.database_url.startswith("sqlite:///")


def test_the_environment_wins_over_the_file_and_the_command_line_over_both(tmp_path: Path) -> None:
    path = written(tmp_path, "[server]\nport = 1\nagent_port = 2\nhost = '::1'\n")
    environ = {"ANYGPU_SERVER__PORT": "3", "ANYGPU_SERVER__AGENT_PORT": "4"}
    settings = load(path, environ=environ, overrides={"server.agent_port": 5})
    assert (settings.server.port, settings.server.agent_port, settings.server.host) == (3, 5, "::1")
    assert settings.origins["server.port"] == "ANYGPU_SERVER__PORT"
    assert settings.origins["server.agent_port"] == "command line"
    assert settings.origins["server.host"] == str(path)


def test_what_happens_with_a_better_place_is_one_of_three(tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "ANYGPU_CONTROL__MOVE": "act"}
    assert control_policy(load(environ=environ), "local").migration.mode == "act"
    with pytest.raises(InvalidSettings, match="never, advise, act"):
        control_policy(load(environ=environ | {"ANYGPU_CONTROL__MOVE": "always"}), "local")


def test_every_row_tells_its_origin(tmp_path: Path) -> None:
    settings = load(environ={"HOME": str(tmp_path), "ANYGPU_AGENT__LEASE_S": "7"})
    found = {row.key: row for row in setting_rows(settings)}
    assert found["agent.lease_s"].origin == "ANYGPU_AGENT__LEASE_S"
    assert found["agent.lease_s"].value == 7
    assert found["agent.heartbeat_s"].origin == "default"


def test_a_wrong_key_names_the_nearest_valid_one(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"server\.prot.*Did you mean 'server\.port'"):
        load(written(tmp_path, "[server]\nprot = 1\n"), environ={})
    with pytest.raises(InvalidSettings, match=r"ANYGPU_AGNET__LEASE_S.*'agent\.lease_s'"):
        load(environ={"ANYGPU_AGNET__LEASE_S": "1"})


def test_variables_of_a_running_job_are_not_settings() -> None:
    load(environ={"ANYGPU_JOB_ID": "x", "ANYGPU_DIR": "y", "ANYGPU_HOLD_FDS": "3"})


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[server]\nport = 'high'", "whole number"),
        ("[server]\nport = true", "whole number"),
        ("[server]\nport = 1.5", "whole number"),
        ("[server]\nport = 70000", "at most 65535"),
        ("[agent]\nlease_s = 0", "at least 1"),
        ("[agent]\nlease_s = nan", "at least 1"),
        ("[server]\nhost = 5", "a string"),
        ("[server]\nallowed_hosts = [1]", "list of strings"),
        ("[local]\nenabled = 'perhaps'", "true or false"),
        ("server = 5", "no setting with the name 'server'"),
        ("[backends.lab]\ncpus = 1", "backends.lab has no option `kind`"),
        ("[backends.lab]\nkind = 5", "backends.lab has no option `kind`"),
        ("[backends]\nlab = 'ssh'", "no setting with the name 'backends.lab'"),
        ("[server", "config.toml"),
    ],
)
def test_a_wrong_value_says_what_was_wanted(tmp_path: Path, text: str, reason: str) -> None:
    with pytest.raises(InvalidSettings, match=reason):
        load(written(tmp_path, text), environ={})


def test_a_file_asked_for_by_name_must_exist(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"settings file .* does not exist"):
        load(tmp_path / "missing.toml", environ={})


def test_lists_and_switches_can_come_from_the_environment() -> None:
    settings = load(environ={"ANYGPU_SERVER__ALLOWED_HOSTS": "a.example, b", "ANYGPU_LOCAL__ENABLED": "no"})
    assert settings.server.allowed_hosts == ("a.example", "b")
    assert settings.local.enabled is False


def test_a_backend_is_a_table_of_its_own_whose_options_its_kind_knows(tmp_path: Path) -> None:
    path = written(tmp_path, "[backends.lab]\nkind = 'ssh'\nhosts = ['a', 'b']\nkey = 'hush'\n")
    settings = load(
        path, environ={"ANYGPU_BACKENDS__LAB__KEY": "other", "ANYGPU_BACKENDS__CLOUD__KIND": "ec2"}
    )
    assert settings.backends["lab"] == {"kind": "ssh", "hosts": ["a", "b"], "key": "other"}
    assert settings.backends["cloud"] == {"kind": "ec2"}
    shown = {row.key: row for row in setting_rows(settings) if row.key.startswith("backends.")}
    assert {key: (row.value, row.origin) for key, row in shown.items()} == {
        "backends.lab": ("ssh", str(path)),
        "backends.cloud": ("ec2", "ANYGPU_BACKENDS__CLOUD__KIND"),
    }
    assert "hush" not in repr(shown)
    assert "other" not in repr(shown)


def test_the_places_follow_xdg(tmp_path: Path) -> None:
    environ = {"HOME": "/h", "XDG_CONFIG_HOME": str(tmp_path), "XDG_DATA_HOME": "relative/is/ignored"}
    assert config_path(environ) == tmp_path / "anygpu" / "config.toml"
    assert load(environ=environ).state == Path("/h/.local/share/anygpu")
    assert load(environ={"ANYGPU_STATE": str(tmp_path)}).state == tmp_path
    assert config_path({"ANYGPU_CONFIG": "/etc/x.toml"}) == Path("/etc/x.toml")


def test_settings_do_not_change_under_those_who_hold_them() -> None:
    with pytest.raises(FrozenInstanceError):
        load(environ={}).server.port = 1  # type: ignore[misc]


def test_every_setting_is_documented_with_its_default_and_variable() -> None:
    text = DOCS.read_text()
    for row in setting_rows(load(environ={})):
        if row.key != "state":
            assert (
                f"| `{row.key}` | `{environment_name(row.key)}` | {_shown(row.default)} | {row.about} |"
                in text
            )


def test_reading_settings_imports_nothing_heavy() -> None:
    code = "import anygpu.settings, sys; print({'pydantic', 'fastapi', 'tomllib'} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "set()"


def _shown(default: object) -> str:
    return "" if default in ("", ()) else f"`{default}`"
