"""Tables of settings of which one is picked by name: {"tiny": dict(depth=6), "base": dict(depth=12)}[args.size]."""

import ast
from collections.abc import Iterator

from anygpu.plan.analyse.facts import Facts, normal
from anygpu.plan.analyse.findings import LIKELY
from anygpu.plan.analyse.settings import Settings, Value

MOST_PICKS = 200


def entries(facts: Facts) -> set[int]:
    """The identities of the entries of such tables: they hold only once they are picked."""
    tables = {id(table): table for node, _ in facts.picks if (table := _table(facts, node)) is not None}
    return {id(entry) for table in tables.values() for entry in table.values if _is_settings(entry)}


def take(facts: Facts, settings: Settings) -> None:
    """What is picked counts as a default of the options it names."""
    for node, around in facts.picks[:MOST_PICKS]:
        table = _table(facts, node)
        picked = settings.text(node.slice) if table is not None else None
        entry = _entry(table, str(picked.value)) if table is not None and picked is not None else None
        for name, value in _settings(entry):
            found = settings.of(value)
            if picked is not None and found is not None:
                because = f"the settings of {picked.value}"
                told = Value(found.value, around.file, value.lineno, LIKELY, because)
                settings.options.setdefault(normal(name), told)


def _table(facts: Facts, node: ast.Subscript) -> ast.Dict | None:
    """The table, written in place or under a name of its own."""
    if isinstance(node.value, ast.Name):
        bound = facts.assigned.get(normal(node.value.id), ())
        return next((b.node for b in bound if isinstance(b.node, ast.Dict)), None)
    return node.value if isinstance(node.value, ast.Dict) else None


def _entry(table: ast.Dict, name: str) -> ast.expr | None:
    pairs = zip(table.keys, table.values, strict=True)
    named = (v for k, v in pairs if isinstance(k, ast.Constant) and k.value == name and _is_settings(v))
    return next(named, None)


def _is_settings(node: ast.expr) -> bool:
    named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict"
    return named or isinstance(node, ast.Dict)


def _settings(entry: ast.expr | None) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(entry, ast.Call):
        yield from ((k.arg, k.value) for k in entry.keywords if k.arg)
    elif isinstance(entry, ast.Dict):
        pairs = zip(entry.keys, entry.values, strict=True)
        yield from ((str(k.value), v) for k, v in pairs if isinstance(k, ast.Constant))
