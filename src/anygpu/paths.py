"""Default paths of the settings file and the state directory.

Separate from `settings` so that the CLI starts fast.
"""

import os
from collections.abc import Mapping
from pathlib import Path


def config_path(environ: Mapping[str, str] = os.environ) -> Path:
    if chosen := environ.get("ANYGPU_CONFIG"):
        return Path(chosen).expanduser()
    return _base(environ, "XDG_CONFIG_HOME", ".config") / "anygpu" / "config.toml"


def default_state(environ: Mapping[str, str] = os.environ) -> Path:
    return _base(environ, "XDG_DATA_HOME", ".local/share") / "anygpu"


def cache_directory(environ: Mapping[str, str] = os.environ) -> Path:
    return _base(environ, "XDG_CACHE_HOME", ".cache") / "anygpu"


def _base(environ: Mapping[str, str], variable: str, under_home: str) -> Path:
    # XDG: a relative path in these variables must be ignored.
    chosen = Path(environ.get(variable, ""))
    return chosen if chosen.is_absolute() else Path(environ.get("HOME") or Path.home()) / under_home
