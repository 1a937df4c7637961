"""Tables of settings of which one is picked by name: {"tiny": dict(depth=6), "base": dict(depth=12)}[args.size]."""

import ast
from collections.abc import Iterator

from anygpu.plan.analyse.facts import Facts, normal
from anygpu.plan.analyse.findings import LIKELY
from anygpu.plan.analyse.settings import Settings, Value


def entries(facts: Facts) -> set[int]:
    """The identities of the entries of such tables: they hold only once they are picked."""
    return {id(entry) for node, _ in facts.picks for entry in _table(facts, node).values()}


def take(facts: Facts, settings: Settings) -> None:
    """What is picked counts as a default of the options it names."""
    for node, around in facts.picks:
        table = _table(facts, node)
        picked = settings.text(node.slice) if table else None
        entry = table.get(str(picked.value)) if picked is not None else None
        for name, value in _settings(entry):
            found = settings.of(value)
            if picked is not None and found is not None:
                because = f"the settings of {picked.value}"
                told = Value(found.value, around.file, value.lineno, LIKELY, because)
                settings.options.setdefault(normal(name), told)


def _table(facts: Facts, node: ast.Subscript) -> dict[str, ast.expr]:
    """Names to entries, of a table written in place or under a name of its own."""
    table: ast.expr | None = node.value
    if isinstance(table, ast.Name):
        bound = facts.assigned.get(normal(table.id), ())
        table = next((b.node for b in bound if isinstance(b.node, ast.Dict)), None)
    if not isinstance(table, ast.Dict):
        return {}
    pairs = zip(table.keys, table.values, strict=True)
    return {str(k.value): v for k, v in pairs if isinstance(k, ast.Constant) and _is_settings(v)}


def _is_settings(node: ast.expr) -> bool:
    named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict"
    return named or isinstance(node, ast.Dict)


def _settings(entry: ast.expr | None) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(entry, ast.Call):
        yield from ((k.arg, k.value) for k in entry.keywords if k.arg)
    elif isinstance(entry, ast.Dict):
        pairs = zip(entry.keys, entry.values, strict=True)
        yield from ((str(k.value), v) for k, v in pairs if isinstance(k, ast.Constant))
