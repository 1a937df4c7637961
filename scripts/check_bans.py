"""Check that control/ uses clocks, randomness and threads only through injected interfaces.

The simulation runs the control loop on virtual time, so a direct use of a real clock would make it worthless.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROOM = ROOT / "src" / "anygpu" / "control"
BANNED_MODULES = {"time", "random", "secrets", "threading", "concurrent", "multiprocessing", "queue"}
BANNED_NAMES = {
    "asyncio.sleep",
    "asyncio.to_thread",
    "asyncio.wait_for",
    "asyncio.timeout",
    "datetime.now",
    "datetime.datetime.now",
    "datetime.utcnow",
    "uuid.uuid4",
    "uuid4",
    "os.urandom",
    "os.times",
}


def main() -> None:
    found = [line for path in sorted(ROOM.rglob("*.py")) for line in bans(path)]
    for line in found:
        print(line)
    print(f"bans: {len(found)} found in control/")
    sys.exit(1 if found else 0)


def bans(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        for name in used(node):
            if name in BANNED_NAMES or name.split(".")[0] in BANNED_MODULES:
                yield f"{path.relative_to(ROOT)}:{getattr(node, 'lineno', 0)}: {name} is banned here; take it as a seam"


def used(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield node.module or ""
        yield from (f"{node.module}.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.Attribute):
        yield ast.unparse(node)


if __name__ == "__main__":
    main()
