"""Paths follow the environment: our own variable first, then XDG, then the home directory."""

from pathlib import Path

from anygpu.paths import cache_directory, config_path, default_state

HOME = {"HOME": "/home/ada"}


def test_without_other_variables_paths_are_in_the_home_directory() -> None:
    assert config_path(HOME) == Path("/home/ada/.config/anygpu/config.toml")
    assert default_state(HOME) == Path("/home/ada/.local/share/anygpu")
    assert cache_directory(HOME) == Path("/home/ada/.cache/anygpu")


def test_xdg_variables_replace_the_directories_in_the_home_directory() -> None:
    environ = {**HOME, "XDG_CONFIG_HOME": "/c", "XDG_DATA_HOME": "/d", "XDG_CACHE_HOME": "/e"}
    assert config_path(environ) == Path("/c/anygpu/config.toml")
    assert default_state(environ) == Path("/d/anygpu")
    assert cache_directory(environ) == Path("/e/anygpu")


def test_a_relative_xdg_path_is_ignored() -> None:
    environ = {**HOME, "XDG_DATA_HOME": "data", "XDG_CONFIG_HOME": ""}
    assert default_state(environ) == default_state(HOME)
    assert config_path(environ) == config_path(HOME)


def test_a_chosen_settings_file_is_used_as_it_is() -> None:
    chosen = {**HOME, "XDG_CONFIG_HOME": "/c", "ANYGPU_CONFIG": "/etc/anygpu.toml"}
    assert config_path(chosen) == Path("/etc/anygpu.toml")
    assert config_path({"ANYGPU_CONFIG": "~/a.toml"}) == Path("~/a.toml").expanduser()
