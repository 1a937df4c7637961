"""Build the web app while a wheel or a source distribution of anygpu is made.

Node is downloaded for the build only if the built files are missing or old and the machine has no suitable Node.
`HATCH_BUILD_NO_HOOKS=true` makes a package without the web app.
"""

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

# The build runs in an environment of its own, where the repository is not on the path.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from scripts import build_web


class WebBuildHook(BuildHookInterface[Any]):
    """Adds the built web app to the package."""

    def dependencies(self) -> list[str]:
        return [] if build_web.is_built() or build_web.find_node() else [build_web.NODE_PACKAGE]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":  # `make web` builds it
            return
        try:
            build_web.ensure_built()
        except build_web.WebBuildError as error:
            self.app.abort(f"{error}. Set HATCH_BUILD_NO_HOOKS=true to install anygpu without the web app.")
