"""How anygpu itself was installed, and the command that adds an optional part (an extra) to this installation."""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

# Every command imports this module, so it imports others only when they are needed.

PACKAGE = "anygpu"
UV_TOOL_FILE, PIPX_FILE = "uv-receipt.toml", "pipx_metadata.json"


class Installation(NamedTuple):
    """The program that installed anygpu, and from where."""

    tool: str  # pip | uv pip | uv tool | pipx
    python: str
    source: str = ""  # URL of the directory or file it was installed from; empty: a package index
    editable: bool = False

    def extra_command(self, *extras: str) -> str:
        """Return the shell command that installs anygpu with these extras into the same environment."""
        import shlex

        requirement = self._requirement(extras)
        match self.tool:
            case "uv tool":
                words = ["uv", "tool", "install", "--force", *requirement]
            case "pipx":
                words = ["pipx", "install", "--force", *requirement]
            case "uv pip":
                words = ["uv", "pip", "install", "--python", self.python, *requirement]
            case _:
                words = [self.python, "-m", "pip", "install", *requirement]
        return shlex.join(words)

    def _requirement(self, extras: Iterable[str]) -> list[str]:
        named = f"{PACKAGE}[{','.join(extras)}]"
        if self.editable and not self._is_tool:
            return ["-e", f"{local_path(self.source)}[{','.join(extras)}]"]
        return [f"{named} @ {self.source}" if self.source else named]

    @property
    def _is_tool(self) -> bool:
        return self.tool in ("uv tool", "pipx")


def find_installation() -> Installation:
    """Return how the running anygpu was installed."""
    source, editable = _source()
    return Installation(_tool(Path(sys.prefix)), sys.executable, source, editable)


def install_hint(*extras: str) -> str:
    """Return a sentence with the command that installs these extras here."""
    return f"Install it with `{find_installation().extra_command(*extras)}`."


def command_name() -> str:
    """Return how the user called the command line: `anygpu`, or `python -m anygpu` with the path of Python."""
    if Path(sys.argv[0]).name == "__main__.py":
        import shlex

        return shlex.join([sys.executable, "-m", PACKAGE])
    return PACKAGE


def with_command_name(text: str) -> str:
    """Replace `anygpu` in the commands that a text suggests, such as "Run `anygpu up`", by `command_name()`."""
    return text.replace(f"`{PACKAGE} ", f"`{command_name()} ") if f"`{PACKAGE} " in text else text


def _tool(prefix: Path) -> str:
    if (prefix / UV_TOOL_FILE).exists():
        return "uv tool"
    if (prefix / PIPX_FILE).exists():
        return "pipx"
    from importlib.util import find_spec

    return "pip" if find_spec("pip") is not None else "uv pip"


def _source() -> tuple[str, bool]:
    """Return the URL of a local directory or file that anygpu was installed from (PEP 610), and if it is editable."""
    import json
    from importlib import metadata

    try:
        text = metadata.distribution(PACKAGE).read_text("direct_url.json")
        told = json.loads(text) if text else {}
    except (metadata.PackageNotFoundError, OSError, ValueError):
        return "", False
    url = told.get("url") or ""
    if not url.startswith("file:") or not Path(local_path(url)).exists():
        return "", False
    return url, bool((told.get("dir_info") or {}).get("editable"))


def local_path(url: str) -> str:
    """Return the path of a file: URL."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    return url2pathname(urlsplit(url).path)
