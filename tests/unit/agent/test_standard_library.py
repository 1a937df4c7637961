"""The agent runs on Python 3.9 with nothing installed."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

import anygpu
from anygpu.agent.prepare.environment import LIBRARY_FILES

PACKAGE = Path(anygpu.__file__).parent
FILES = [*(PACKAGE / name for name in LIBRARY_FILES), *sorted((PACKAGE / "agent").rglob("*.py"))]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_file_is_valid_python_3_9(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    lazily_typed = any(isinstance(node, ast.ImportFrom) and node.module == "__future__" for node in tree.body)
    assert lazily_typed or not any(
        isinstance(node, ast.AnnAssign | ast.FunctionDef) for node in ast.walk(tree)
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_file_imports_only_the_standard_library_and_anygpu(path: Path) -> None:
    outside = {name for name in imported(ast.parse(path.read_text())) if not allowed(name)}
    assert outside == set()


def imported(tree: ast.AST) -> set[str]:
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module or "")
    return names


def allowed(name: str) -> bool:
    """The client (anygpu.sdk) is offered where it is installed, and not needed where it is not."""
    if name in ("anygpu", "anygpu.bounds", "anygpu.sdk") or name.startswith(("anygpu.agent", "anygpu.job")):
        return True
    return name.split(".")[0] in sys.stdlib_module_names | {"_sha2", "_sha256"}
