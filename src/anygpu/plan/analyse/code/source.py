"""Parse a file into a syntax tree without running it.

No input raises an error: files with syntax errors, binary files, Python 2, notebooks and huge files are
read as far as possible.
"""

import ast
import contextlib
import json
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

from anygpu.plan.analyse.code.conditions import is_plausible
from anygpu.plan.analyse.findings import ReadProblem

WHOLE_CHARS = 160_000  # of larger files only relevant parts are parsed: 2 MB in under a second
PART_CHARS = 100_000
MAX_BLOCK_CHARS = 40_000
MAX_LINE_CHARS = 20_000
MAX_SNIPPETS = 2000
MAX_REPAIRS = 12
PARSE_ATTEMPTS = 5
MAX_DEPTH = 100  # expressions inside each other
MAX_CHARS = 4_000_000

_RELEVANT = re.compile(
    r"torch|keras|tensorflow|jax|flax|sklearn|xgb|lgb|lightgbm|catboost|transformers|ultralytics|accelerate|"
    r"epoch|batch|train|optim|checkpoint|argparse|add_argument|model|loader|lr\b|cuda|device|config",
    re.IGNORECASE,
)
_CONTINUES = re.compile(r"(?:else|elif|except|finally)\b")
# The input is untrusted: adjacent parts of a pattern match different characters, to avoid backtracking.
_PRINT = re.compile(r"^(\s*)print\s+(?![=(\s])(?:>>\s*[\w.]+\s*,\s*)?(.*?),?$")
_PRINT_BARE = re.compile(r"^(\s*)print\s*$")
_EXCEPT = re.compile(r"^(\s*)except\s+([\w.]+|\([\w., ]*\))\s*,\s*(\w+)\s*:")
_RAISE = re.compile(r"^(\s*)raise\s+([\w.]+)\s*,\s*(.+)$")
_EXEC = re.compile(r"^(\s*)exec\s+(?!\()(.+)$")
_NO_STATEMENT = " \t#)]}0123456789-,\"'"  # lines that start so continue a block
_OPENS = re.compile(r"\s*(?:for|while|if|elif|else|with|def|class|try|except|finally)\b")
_MAGIC = re.compile(r"^(\s*)[%!?](?!=)")
# A notebook cell in bash or HTML, or one that writes a file.
_OTHER_LANGUAGE = re.compile(r"\s*%%(?!time|capture|prun|python)")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A source file and the syntax tree of the parts that could be parsed."""

    name: str
    tree: ast.Module
    text: str = ""
    whole: bool = True
    problems: tuple[ReadProblem, ...] = ()


def read_source(name: str, data: bytes | str) -> SourceFile:
    """Parse a file. If the file has syntax errors, only the parts without errors are parsed."""
    text = data if isinstance(data, str) else _decode(data)
    if text is None or _is_noise(text[:20_000]):
        return _unreadable(name, "is a binary file; give the Python script that trains the model")
    if _is_notebook(name, text):
        text, note = _notebook_code(text)
        if text is None:
            return _unreadable(name, note)
    text = text.replace("\r\n", "\n").replace("\r", "\n").lstrip("\ufeff")
    if len(text) > WHOLE_CHARS:
        message = f"has {len(text):,} characters; only the parts about training were read"
        return _read_parts(name, _strip_magic(text[:MAX_CHARS]), ReadProblem(file=name, message=message))
    plain = _strip_magic(text)
    for version in (text, plain) if plain != text else (text,):
        try:
            return SourceFile(name, parse(version), version)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            problem = _parse_problem(name, error)
    return _repair(name, plain, problem)


def _parse_problem(name: str, error: Exception) -> ReadProblem:
    message = f"does not parse as Python 3 ({getattr(error, 'msg', error)}); only valid parts were read"
    return ReadProblem(file=name, message=message, line=getattr(error, "lineno", 0) or 0)


def _repair(name: str, text: str, problem: ReadProblem) -> SourceFile:
    """Parse a file with syntax errors, after repairing the invalid lines or replacing them by `pass`."""
    lines = _to_python3(text).split("\n")
    attempts: dict[int, int] = {}
    for _ in range(MAX_REPAIRS if len(text) < 40_000 else 3):
        try:
            return SourceFile(name, parse("\n".join(lines)), text, whole=False, problems=(problem,))
        except SyntaxError as error:
            at = min(max((error.lineno or 1) - 1, 0), len(lines) - 1)
        except (ValueError, RecursionError, MemoryError):
            break
        lines[at] = _repair_line(lines[at], attempts.get(at, 0))
        attempts[at] = attempts.get(at, 0) + 1
    return _read_parts(name, text, problem)


def _repair_line(line: str, times: int) -> str:
    """Return an invalid line with its missing colon or bracket added, or `pass`.

    `times` is how often the line has been repaired already; after the first repair, `pass` is returned.
    """
    indent = line[: len(line) - len(line.lstrip())]
    if times == 0 and _OPENS.match(line) and not line.rstrip().endswith(":"):
        return line.rstrip() + ":"
    missing = line.count("(") + line.count("[") - line.count(")") - line.count("]")
    if times == 0 and missing > 0:
        return line.rstrip() + ")" * missing
    return indent + "pass"


def parse(text: str) -> ast.Module:
    """Parse Python code, and try again after a SystemError.

    Before Python 3.13, `ast.parse` sometimes fails without reason if a finalizer of the garbage collector
    parses code at the same time (CPython issue 106905). The next try usually succeeds.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(PARSE_ATTEMPTS):
            with contextlib.suppress(SystemError):
                return _trim(ast.parse(text))
    raise MemoryError("ast.parse raised SystemError each time (CPython issue 106905)")


def _trim(tree: ast.Module) -> ast.Module:
    """Replace huge constants and deeply nested expressions by `...`.

    Otherwise, later code that recurses over the tree or prints its numbers could fail.
    """
    stack: list[tuple[ast.AST, int]] = [(tree, 0)]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, ast.Constant):
            node.value = node.value if is_plausible(node.value) else ...
            continue
        if depth >= MAX_DEPTH:
            _blank(node)
        deeper = 0 if isinstance(node, ast.stmt) else depth + isinstance(node, ast.expr)
        stack += [(child, deeper) for child in ast.iter_child_nodes(node)]
    return tree


def _blank(node: ast.AST) -> None:
    for name, value in ast.iter_fields(node):
        setattr(node, name, [*map(_ellipsis, value)] if isinstance(value, list) else _ellipsis(value))


def _ellipsis(node: object) -> object:
    """Return the syntax node `...`, to replace an expression. Parts of an f-string are returned unchanged."""
    if not isinstance(node, ast.expr) or isinstance(node, ast.JoinedStr | ast.FormattedValue):
        return node
    return ast.copy_location(ast.Constant(...), node)


def _unreadable(name: str, message: str) -> SourceFile:
    empty = ast.Module(body=[], type_ignores=[])
    return SourceFile(name, empty, whole=False, problems=(ReadProblem(file=name, message=message),))


def _decode(data: bytes) -> str | None:
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    if b"\0" in data[:65536]:
        return None
    return data.decode("utf-8", "replace")


def _is_noise(head: str) -> bool:
    """Return whether a file is binary, judged by the beginning of its decoded text."""
    return "\0" in head or head.count("\ufffd") > 0.1 * max(len(head), 1)


def _is_notebook(name: str, text: str) -> bool:
    return name.endswith(".ipynb") or (text[:1] == "{" and '"cells"' in text and '"nbformat"' in text[-5000:])


def _notebook_code(text: str) -> tuple[str | None, str]:
    try:
        cells = json.loads(text)["cells"]
        sources = ["".join(cell["source"]) for cell in cells if cell.get("cell_type") == "code"]
        python = [source for source in sources if not _OTHER_LANGUAGE.match(source)]
        return "\n".join(source.rstrip("\n") + "\n" for source in python), ""
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        return None, f"is not a readable notebook ({type(error).__name__}); export it to .py"


def _strip_magic(text: str) -> str:
    if not re.search(r"^[^\S\n]*[%!?]", text, re.MULTILINE):
        return text
    return "\n".join(_MAGIC.sub(r"\1None  # ", line) for line in text.split("\n"))


def _read_parts(name: str, text: str, problem: ReadProblem) -> SourceFile:
    body: list[ast.stmt] = []
    for first, block in _relevant_blocks(text):
        body.extend(_parse_block(_to_python3(block), first))
    return SourceFile(name, ast.Module(body=body, type_ignores=[]), text, whole=False, problems=(problem,))


def _to_python3(text: str) -> str:
    """Rewrite Python 2 statements as Python 3, line by line, so that the rest of the file parses."""
    lines = []
    for line in text.split("\n"):
        if len(line) > MAX_LINE_CHARS:
            lines.append("")
            continue
        if "print" in line:
            line = _PRINT_BARE.sub(r"\1print()", _PRINT.sub(r"\1print(\2)", line.rstrip()))
        if "except" in line:
            line = _EXCEPT.sub(r"\1except \2 as \3:", line)
        line = _EXEC.sub(r"\1exec(\2)", _RAISE.sub(r"\1raise \2(\3)", line))
        lines.append(line)
    return "\n".join(lines)


def _relevant_blocks(text: str) -> Iterator[tuple[int, str]]:
    """Yield the text of each top-level statement with the number of its first line.

    Of a large file, only the statements about training are yielded, up to a total size.
    """
    budget = PART_CHARS
    for first, lines in _split_blocks(text.split("\n")):
        block = "\n".join(lines)
        if len(block) > MAX_BLOCK_CHARS:
            block = block[:MAX_BLOCK_CHARS].rpartition("\n")[0]
        if not block or (len(text) > WHOLE_CHARS and not _RELEVANT.search(block)):
            continue
        budget -= len(block)
        if budget < 0:
            return
        yield first, block


def _split_blocks(lines: list[str]) -> Iterator[tuple[int, list[str]]]:
    start, decorated = 0, False
    for number, line in enumerate(lines):
        if not line or line[0] in _NO_STATEMENT:
            continue
        if number > start and not decorated and not _CONTINUES.match(line):
            yield start + 1, lines[start:number]
            start = number
        decorated = line[0] == "@"
    yield start + 1, lines[start:]


def _parse_block(block: str, first: int) -> list[ast.stmt]:
    try:
        return _shift_lines(parse(block).body, first - 1)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return _parse_snippets(block, first)


def _parse_snippets(block: str, first: int) -> list[ast.stmt]:
    """Return the valid statements of a block of code that does not parse as a whole."""
    found: list[ast.stmt] = []
    for start, text in _logical_lines(block.split("\n")[:MAX_SNIPPETS]):
        try:
            found.extend(_shift_lines(parse(text).body, first - 1 + start))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return found


def _logical_lines(lines: list[str]) -> Iterator[tuple[int, str]]:
    pending: list[str] = []
    start = depth = 0
    for number, line in enumerate(lines):
        if not pending:
            start, depth = number, 0
        pending.append(line.strip())
        depth += sum(line.count(c) for c in "([{") - sum(line.count(c) for c in ")]}")
        if depth > 0 and len(pending) < 60:
            continue
        text = " ".join(pending).strip()
        pending = []
        if text and not text.startswith("#"):
            yield start, _complete(text)


def _complete(text: str) -> str:
    if text.startswith("@"):
        return text + "\ndef decorated(): pass"
    if text.endswith(":") and re.match(r"(?:for|while|if|with|def|class|try)\b", text):
        return text + (" pass" if not text.startswith("try") else " pass\nfinally: pass")
    return text


def _shift_lines(body: list[ast.stmt], lines: int) -> list[ast.stmt]:
    for statement in body:
        ast.increment_lineno(statement, lines)
    return body
