"""Find the exact position of a lint in its line, and the edits that resolve it, where they are certain to be valid."""

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from anygpu.plan.analyse.code.source import SourceFile, parse
from anygpu.plan.analyse.code.syntax import CallSite
from anygpu.plan.analyse.code.training_code import Code
from anygpu.plan.analyse.findings import CodeEdit, CodeFix, Lint

WORKERS, EVALUATION_STEPS = 4, 500
DATASET_VARIABLE = "ANYGPU_DATASET"
_WORKER_ARGUMENTS = ("num_workers", "dataloader_num_workers", "workers")
_PRECISION_ARGUMENTS = ("bf16", "fp16", "precision")

Found = tuple[ast.expr, CodeFix | None]  # the part of the code that the lint is about, and its fix


def with_fixes(lints: Sequence[Lint], code: Code) -> tuple[Lint, ...]:
    """Return the lints with their columns and fixes. Only files that were parsed completely get them."""
    sources = {
        source.name: source
        for source in code.facts.sources
        if source.whole and source.name.endswith(".py") and source.text
    }
    return tuple(_with_fix(lint, code, sources) for lint in lints)


def _with_fix(lint: Lint, code: Code, sources: dict[str, SourceFile]) -> Lint:
    lint = _at_precision_argument(lint, code)
    source = sources.get(lint.file)
    if source is None or not lint.line:
        return lint
    found = _FINDERS[lint.code](lint, source, code) if lint.code in _FINDERS else None
    if found is None:
        return lint
    node, fix = found
    column, end_column = _columns(source, node, lint.line)
    is_valid = fix is not None and _parses(source, fix)
    return replace(lint, column=column, end_column=end_column, fix=fix if is_valid else None)


def _no_workers(lint: Lint, source: SourceFile, code: Code) -> Found | None:
    for call in _calls_at(code, lint):
        is_loader = call.short_name.endswith("Loader") or call.short_name == "create_loader"
        is_arguments = call in code.hf_arguments
        name = "dataloader_num_workers" if is_arguments else "num_workers"
        if (is_loader or is_arguments) and not call.has(*_WORKER_ARGUMENTS) and not call.spreads:
            edit = _insertion(source, call.node, f"{name}={WORKERS}")
            return call.node.func, _fix(f"Add {name}={WORKERS}", edit)
    return _constant(source, lint.line, 0, str(WORKERS), f"Use {WORKERS} workers")


def _frequent_evaluation(lint: Lint, source: SourceFile, code: Code) -> Found | None:
    for call in _calls_at(code, lint):
        if call not in code.hf_arguments and call.context.loops:
            return call.node.func, None
    value = next(
        (node for node in _constants(source, lint.line, int) if not isinstance(node.value, bool)), None
    )
    if value is None:
        return None
    edit = _replacement(source, value, str(EVALUATION_STEPS))
    return value, _fix(f"Evaluate every {EVALUATION_STEPS} steps", edit)


def _absolute_path(lint: Lint, source: SourceFile, code: Code) -> Found | None:
    """Replace a path by the one of the job's dataset, with the path as the default outside a job."""
    texts = [node for node in _constants(source, lint.line, str) if str(node.value) in lint.message]
    inside = {
        id(part) for each in ast.walk(source.tree) if isinstance(each, ast.JoinedStr) for part in each.values
    }
    paths = [node for node in texts if len(str(node.value)) > 1 and id(node) not in inside]
    if len(paths) != 1:
        return None
    literal = ast.get_source_segment(source.text, paths[0]) or repr(paths[0].value)
    edit = _replacement(source, paths[0], f'os.environ.get("{DATASET_VARIABLE}", {literal})')
    imported = _import_of(source, "os")
    edits = (*imported, edit) if imported is not None and edit is not None else None
    if edits is not None and len({each.line for each in edits}) != len(edits):
        edits = None
    title = "Take it from the dataset"
    return paths[0], CodeFix(title=title, edits=edits) if edits is not None else None


def _fixed_world_size(lint: Lint, source: SourceFile, code: Code) -> Found | None:
    for call in _calls_at(code, lint):
        devices = call.argument("devices")
        if call in code.lightning_trainers and isinstance(devices, ast.Constant):
            return devices, _fix("Use all GPUs of the machine", _replacement(source, devices, '"auto"'))
    numbers = _constants(source, lint.line, int)
    node = next(numbers, None)
    return None if node is None else (node, None)


def _no_amp(lint: Lint, source: SourceFile, code: Code) -> Found | None:
    for call in _precision_calls(code):
        if (call.file, call.line) == (lint.file, lint.line):
            word = "bf16=True" if call in code.hf_arguments else 'precision="bf16-mixed"'
            return call.node.func, _fix(f"Add {word}", _insertion(source, call.node, word))
    return None


def _whole_call(lint: Lint, source: SourceFile, code: Code) -> Found | None:
    call = next(_calls_at(code, lint), None)
    return None if call is None else (call.node.func, None)


_FINDERS: dict[str, Callable[[Lint, SourceFile, Code], Found | None]] = {
    "no-workers": _no_workers,
    "eval-every-step": _frequent_evaluation,
    "absolute-path": _absolute_path,
    "fixed-world-size": _fixed_world_size,
    "no-amp": _no_amp,
    "no-checkpoint": _whole_call,
    "checkpoint-outside": _whole_call,
}


def _at_precision_argument(lint: Lint, code: Code) -> Lint:
    """Return a lint about the precision, which has no line, at the only call that could set the precision."""
    calls = list(_precision_calls(code)) if lint.code == "no-amp" and not lint.line else []
    return replace(lint, file=calls[0].file, line=calls[0].line) if len(calls) == 1 else lint


def _precision_calls(code: Code) -> Iterator[CallSite]:
    calls = (*code.hf_arguments, *code.lightning_trainers)
    return (call for call in calls if not call.has(*_PRECISION_ARGUMENTS) and not call.spreads)


def _calls_at(code: Code, lint: Lint) -> Iterator[CallSite]:
    return (call for call in code.facts.calls if (call.file, call.line) == (lint.file, lint.line))


def _constants(source: SourceFile, line: int, kind: type) -> Iterator[ast.Constant]:
    return (
        node
        for node in ast.walk(source.tree)
        if isinstance(node, ast.Constant) and node.lineno == line and isinstance(node.value, kind)
    )


def _constant(source: SourceFile, line: int, value: int, new: str, title: str) -> Found | None:
    """Return the only constant of a line that has this value, and the edit that replaces it."""
    same = [node for node in _constants(source, line, int) if node.value == value and node.value is not False]
    return (same[0], _fix(title, _replacement(source, same[0], new))) if len(same) == 1 else None


def _fix(title: str, edit: CodeEdit | None) -> CodeFix | None:
    return CodeFix(title=title, edits=(edit,)) if edit is not None else None


def _replacement(source: SourceFile, node: ast.expr, new: str) -> CodeEdit | None:
    """Return the edit that replaces an expression; None if the expression has several lines."""
    if node.end_lineno != node.lineno:
        return None
    line = _line(source, node.lineno)
    start, end = _characters(line, node.col_offset), _characters(line, node.end_col_offset or 0)
    changed = f"{line[:start]}{new}{line[end:]}"
    return CodeEdit(file=source.name, line=node.lineno, old=line, new=changed)


def _insertion(source: SourceFile, call: ast.Call, argument: str) -> CodeEdit | None:
    """Return the edit that adds an argument to a call, after its last argument."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    last = max(given, key=lambda node: (node.end_lineno or 0, node.end_col_offset or 0), default=None)
    number, offset = _end_of(last) if last is not None else _end_of(call)
    line = _line(source, number)
    at = _characters(line, offset) - (0 if last is not None else 1)
    separator = ", " if last is not None else ""
    changed = f"{line[:at]}{separator}{argument}{line[at:]}"
    return CodeEdit(file=source.name, line=number, old=line, new=changed)


def _end_of(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0


def _import_of(source: SourceFile, module: str) -> tuple[CodeEdit, ...] | None:
    """Return the edits that import a module: none if it is imported; None if there is no place for an import."""
    imports = [node for node in source.tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = (name for node in imports if isinstance(node, ast.Import) for name in node.names)
    if any(name.name == module and name.asname is None for name in names):
        return ()
    first = next((node for node in imports if getattr(node, "module", None) != "__future__"), None)
    if first is None or first.col_offset:
        return None
    line = _line(source, first.lineno)
    return (CodeEdit(file=source.name, line=first.lineno, old=line, new=f"import {module}\n{line}"),)


def _parses(source: SourceFile, fix: CodeFix) -> bool:
    """Return whether the file is still valid Python with the edits of the fix."""
    lines = source.text.split("\n")
    for edit in fix.edits:
        lines[edit.line - 1] = edit.new
    try:
        parse("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _columns(source: SourceFile, node: ast.expr, number: int) -> tuple[int, int]:
    """Return the columns of an expression in a line; those of the whole line if the expression has several lines."""
    line = _line(source, number)
    if node.lineno != number or node.end_lineno != number:
        return len(line) - len(line.lstrip()), len(line.rstrip())
    return _characters(line, node.col_offset), _characters(line, node.end_col_offset or 0)


def _line(source: SourceFile, number: int) -> str:
    lines = source.text.split("\n")
    return lines[number - 1] if number <= len(lines) else ""


def _characters(line: str, offset: int) -> int:
    """Convert an offset in UTF-8 bytes, as syntax trees have it, to characters."""
    return len(line.encode()[:offset].decode(errors="replace"))
