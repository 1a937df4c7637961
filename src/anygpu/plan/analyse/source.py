"""Text to syntax tree, whatever comes: broken, binary, Python 2, notebooks, megabytes. Nothing is run."""

import ast
import contextlib
import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from anygpu.plan.analyse.arithmetic import sane
from anygpu.plan.analyse.findings import Problem

WHOLE_CHARS = 160_000  # above this only the telling parts are parsed, so that 2 MB stay under a second
PART_CHARS = 100_000
LONGEST_BLOCK = 40_000
LONGEST_LINE = 20_000
SNIPPETS = 2000
MENDS = 12
PARSINGS = 5
DEEPEST = 100  # expressions inside each other
MOST_CHARS = 4_000_000

_TELLING = re.compile(
    r"torch|keras|tensorflow|jax|flax|sklearn|xgb|lgb|lightgbm|catboost|transformers|ultralytics|accelerate|"
    r"epoch|batch|train|optim|checkpoint|argparse|add_argument|model|loader|lr\b|cuda|device|config",
    re.IGNORECASE,
)
_CONTINUES = re.compile(r"(?:else|elif|except|finally)\b")
# Lines are a stranger's: where one part of a pattern ends, the next cannot match the same characters.
_PRINT = re.compile(r"^(\s*)print\s+(?![=(\s])(?:>>\s*[\w.]+\s*,\s*)?(.*?),?$")
_PRINT_BARE = re.compile(r"^(\s*)print\s*$")
_EXCEPT = re.compile(r"^(\s*)except\s+([\w.]+|\([\w., ]*\))\s*,\s*(\w+)\s*:")
_RAISE = re.compile(r"^(\s*)raise\s+([\w.]+)\s*,\s*(.+)$")
_EXEC = re.compile(r"^(\s*)exec\s+(?!\()(.+)$")
_NO_STATEMENT = " \t#)]}0123456789-,\"'"  # a long table is one block
_OPENS = re.compile(r"\s*(?:for|while|if|elif|else|with|def|class|try|except|finally)\b")
_MAGIC = re.compile(r"^(\s*)[%!?](?!=)")
_OTHER_LANGUAGE = re.compile(r"\s*%%(?!time|capture|prun|python)")  # a cell of bash, of html, of a file


@dataclass(frozen=True, slots=True)
class Source:
    """One file as far as it could be read."""

    name: str
    tree: ast.Module
    text: str = ""
    whole: bool = True
    problems: tuple[Problem, ...] = ()


def read(name: str, data: bytes | str) -> Source:
    """The syntax tree of a file, or of the parts of it that make sense."""
    text = data if isinstance(data, str) else _decoded(data)
    if text is None or _is_noise(text[:20_000]):
        return _nothing(name, "is a binary file; name the Python script that trains")
    if _is_notebook(name, text):
        text, note = _notebook(text)
        if text is None:
            return _nothing(name, note)
    text = text.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")
    if len(text) > WHOLE_CHARS:
        says = f"has {len(text):,} characters; only the parts that speak of training were read"
        return _in_parts(name, _without_magic(text[:MOST_CHARS]), Problem(file=name, says=says))
    plain = _without_magic(text)
    for version in (text, plain) if plain != text else (text,):
        try:
            return Source(name, parsed(version), version)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            problem = _unparsed(name, error)
    return _mended(name, plain, problem)


def _unparsed(name: str, error: Exception) -> Problem:
    says = f"does not parse as Python 3 ({getattr(error, 'msg', error)}); read as far as it makes sense"
    return Problem(file=name, says=says, line=getattr(error, "lineno", 0) or 0)


def _mended(name: str, text: str, problem: Problem) -> Source:
    """With the lines that do not parse repaired or left out, so that the rest keeps its shape."""
    lines = _modern(text).split("\n")
    tried: dict[int, int] = {}
    for _ in range(MENDS if len(text) < 40_000 else 3):
        try:
            return Source(name, parsed("\n".join(lines)), text, whole=False, problems=(problem,))
        except SyntaxError as error:
            at = min(max((error.lineno or 1) - 1, 0), len(lines) - 1)
        except (ValueError, RecursionError, MemoryError):
            break
        lines[at] = _other(lines[at], tried.get(at, 0))
        tried[at] = tried.get(at, 0) + 1
    return _in_parts(name, text, problem)


def _other(line: str, times: int) -> str:
    """First as it was probably meant, then nothing in its place."""
    indent = line[: len(line) - len(line.lstrip())]
    if times == 0 and _OPENS.match(line) and not line.rstrip().endswith(":"):
        return line.rstrip() + ":"
    missing = line.count("(") + line.count("[") - line.count(")") - line.count("]")
    if times == 0 and missing > 0:
        return line.rstrip() + ")" * missing
    return indent + "pass"


def parsed(text: str) -> ast.Module:
    """Python before 3.13 counts the depth of all parsing in one place: parsing that comes in between, as the
    collector's finalizers may, makes a sound tree look wrong (CPython 106905). Parsed again, it is read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(PARSINGS):
            with contextlib.suppress(SystemError):
                return _trimmed(ast.parse(text))
    raise MemoryError("Python's parser was disturbed each time")


def _trimmed(tree: ast.Module) -> ast.Module:
    """With `...` for what nests deeper or counts further than anybody writes: readers recurse, and print numbers."""
    waiting: list[tuple[ast.AST, int]] = [(tree, 0)]
    while waiting:
        node, depth = waiting.pop()
        if isinstance(node, ast.Constant):
            node.value = node.value if sane(node.value) else ...
            continue
        if depth >= DEEPEST:
            _empty(node)
        deeper = 0 if isinstance(node, ast.stmt) else depth + isinstance(node, ast.expr)
        waiting += [(child, deeper) for child in ast.iter_child_nodes(node)]
    return tree


def _empty(node: ast.AST) -> None:
    for name, value in ast.iter_fields(node):
        setattr(node, name, [*map(_dots, value)] if isinstance(value, list) else _dots(value))


def _dots(node: object) -> object:
    """Texts with values in them keep their shape; what stands in them is emptied in its turn."""
    if not isinstance(node, ast.expr) or isinstance(node, ast.JoinedStr | ast.FormattedValue):
        return node
    return ast.copy_location(ast.Constant(...), node)


def _nothing(name: str, says: str) -> Source:
    empty = ast.Module(body=[], type_ignores=[])
    return Source(name, empty, whole=False, problems=(Problem(file=name, says=says),))


def _decoded(data: bytes) -> str | None:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    if b"\0" in data[:65536]:
        return None
    return data.decode("utf-8", "replace")


def _is_noise(head: str) -> bool:
    """No text, whoever decoded it."""
    return "\0" in head or head.count("\ufffd") > 0.1 * max(len(head), 1)


def _is_notebook(name: str, text: str) -> bool:
    return name.endswith(".ipynb") or (text[:1] == "{" and '"cells"' in text and '"nbformat"' in text[-5000:])


def _notebook(text: str) -> tuple[str | None, str]:
    try:
        cells = json.loads(text)["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell.get("cell_type") == "code"]
        python = [source for source in sources if not _OTHER_LANGUAGE.match(source)]
        return "\n".join(source.rstrip("\n") + "\n" for source in python), ""
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return None, f"is not a readable notebook ({type(error).__name__}); export it to .py"


def _without_magic(text: str) -> str:
    if not re.search(r"^[^\S\n]*[%!?]", text, re.MULTILINE):
        return text
    return "\n".join(_MAGIC.sub(r"\1None  # ", line) for line in text.split("\n"))


def _in_parts(name: str, text: str, problem: Problem) -> Source:
    body: list[ast.stmt] = []
    for first, block in _blocks(text):
        body.extend(_statements(_modern(block), first))
    return Source(name, ast.Module(body=body, type_ignores=[]), text, whole=False, problems=(problem,))


def _modern(text: str) -> str:
    """Python 2 statements in Python 3 words, line by line, so that the rest of the file parses."""
    lines = []
    for line in text.split("\n"):
        if len(line) > LONGEST_LINE:
            lines.append("")
            continue
        if "print" in line:
            line = _PRINT_BARE.sub(r"\1print()", _PRINT.sub(r"\1print(\2)", line.rstrip()))
        if "except" in line:
            line = _EXCEPT.sub(r"\1except \2 as \3:", line)
        line = _EXEC.sub(r"\1exec(\2)", _RAISE.sub(r"\1raise \2(\3)", line))
        lines.append(line)
    return "\n".join(lines)


def _blocks(text: str) -> Iterator[tuple[int, str]]:
    """Top-level statements with the number of their first line, the telling ones, up to a budget."""
    budget = PART_CHARS
    for first, lines in _cut(text.split("\n")):
        block = "\n".join(lines)
        if len(block) > LONGEST_BLOCK:
            block = block[:LONGEST_BLOCK].rpartition("\n")[0]
        if not block or (len(text) > WHOLE_CHARS and not _TELLING.search(block)):
            continue
        budget -= len(block)
        if budget < 0:
            return
        yield first, block


def _cut(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    start, decorated = 0, False
    for number, line in enumerate(lines):
        if not line or line[0] in _NO_STATEMENT:
            continue
        if number > start and not decorated and not _CONTINUES.match(line):
            yield start + 1, lines[start:number]
            start = number
        decorated = line[0] == "@"
    yield start + 1, lines[start:]


def _statements(block: str, first: int) -> list[ast.stmt]:
    try:
        return _moved(parsed(block).body, first - 1)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _snippets(block, first)


def _snippets(block: str, first: int) -> list[ast.stmt]:
    """The single statements of a block that does not parse as a whole."""
    found: list[ast.stmt] = []
    for start, text in _logical_lines(block.split("\n")[:SNIPPETS]):
        try:
            found.extend(_moved(parsed(text).body, first - 1 + start))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return found


def _logical_lines(lines: list[str]) -> Iterator[tuple[int, str]]:
    held: list[str] = []
    start = depth = 0
    for number, line in enumerate(lines):
        if not held:
            start, depth = number, 0
        held.append(line.strip())
        depth += sum(line.count(c) for c in "([{") - sum(line.count(c) for c in ")]}")
        if depth > 0 and len(held) < 60:
            continue
        text = " ".join(held).strip()
        held = []
        if text and not text.startswith("#"):
            yield start, _completed(text)


def _completed(text: str) -> str:
    if text.startswith("@"):
        return text + "\ndef decorated(): pass"
    if text.endswith(":") and re.match(r"(?:for|while|if|with|def|class|try)\b", text):
        return text + (" pass" if not text.startswith("try") else " pass\nfinally: pass")
    return text


def _moved(body: list[ast.stmt], lines: int) -> list[ast.stmt]:
    for statement in body:
        ast.increment_lineno(statement, lines)
    return body
