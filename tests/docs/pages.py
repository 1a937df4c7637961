"""What a page shows: commands in `console` blocks, which are run; those in other blocks, which are read; code."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_EXIT = re.compile(r"\s+# exit (\d+)$")


@dataclass
class Example:
    """A command, its exit code, and lines it is said to print (`…` stands for anything)."""

    command: str
    line: int
    exit_code: int = 0
    says: list[str] = field(default_factory=list)


def blocks(path: Path, language: str) -> Iterator[tuple[int, str]]:
    """The fenced blocks of a language, each with the number of its first line."""
    text = path.read_text(encoding="utf-8")
    for block in re.finditer(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        yield text.count("\n", 0, block.start(1)) + 1, block[1]


def examples(path: Path) -> Iterator[Example]:
    for first, block in blocks(path, "console"):
        yield from _examples(block, first)


def indented(path: Path, *programs: str) -> Iterator[Example]:
    """Commands in indented blocks: shown, not run, since they need what the tests have not."""
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if re.match(rf" {{4,}}(?:{'|'.join(map(re.escape, programs))}) ", text):
            yield Example(text.strip(), number)


def _examples(block: str, first_line: int) -> Iterator[Example]:
    found: Example | None = None
    for number, text in enumerate(block.splitlines(), first_line):
        if text.startswith("$ "):
            if found is not None:
                yield found
            code = _EXIT.search(text)
            found = Example(_EXIT.sub("", text[2:]), number, int(code[1]) if code else 0)
        elif found is not None and text.strip():
            found.says.append(text)
    if found is not None:
        yield found
