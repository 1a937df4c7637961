"""How many statements each provider of machines takes: a new one should need less than 200, in one file.

    python scripts/count_statements.py

A statement is what Python's own parser calls one; docstrings are not counted.
"""

import ast
from pathlib import Path

CLOUDS = Path(__file__).resolve().parent.parent / "src" / "anygpu" / "backends" / "clouds"


def statements(path: Path) -> int:
    tree = ast.parse(path.read_text())
    return sum(isinstance(node, ast.stmt) and not _is_docstring(node) for node in ast.walk(tree))


def _is_docstring(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def main() -> None:
    for path in sorted(CLOUDS.glob("[!_]*.py")):
        print(f"{path.stem.rstrip('_'):<12} {statements(path):>4} statements")


if __name__ == "__main__":
    main()
