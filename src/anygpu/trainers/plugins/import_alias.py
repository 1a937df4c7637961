"""Make imports of `training.base`, `training.registry` and `training.callbacks` resolve to this package."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from anygpu.trainers.plugins import base

PACKAGE = "training"
MODULES = ("base", "registry", "callbacks")


class _AliasFinder(MetaPathFinder, Loader):
    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == PACKAGE:
            return ModuleSpec(fullname, self, is_package=True)
        parent, _, name = fullname.rpartition(".")
        if parent == PACKAGE and name in MODULES and self._is_ours(sys.modules[PACKAGE]):
            return ModuleSpec(fullname, self)
        return None

    def exec_module(self, module: ModuleType) -> None:
        vars(module).update({name: getattr(base, name) for name in base.__all__})
        module.__all__ = list(base.__all__)  # type: ignore[attr-defined]

    def _is_ours(self, package: ModuleType) -> bool:
        return package.__spec__ is not None and package.__spec__.loader is self


_lender = _AliasFinder()


def install_import_alias() -> None:
    """Install the import hook for the `training` modules. A second call has no effect."""
    if _lender not in sys.meta_path:
        sys.meta_path.append(_lender)
