"""One pass over the syntax trees: imports, calls, assignments and loops, with where they stand."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from anygpu.plan.analyse.source import Source

MOST_BOUND = 100  # values of one name: generated code binds `x` thousands of times

Loop = ast.For | ast.AsyncFor | ast.While
_WRAPPERS = frozenset(
    [
        "to",
        "cuda",
        "prepare",
        "train",
        "compile",
        "DataParallel",
        "DistributedDataParallel",
        "FullyShardedDataParallel",
        "DDP",
        "FSDP",
    ]
)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(frozen=True, slots=True)
class Around:
    """What surrounds a piece of code."""

    file: str
    loops: tuple[Loop, ...] = ()
    guards: tuple[ast.expr, ...] = ()  # conditions of the ifs inside the innermost loop
    function: str = ""
    owner: str = ""  # the class
    repeats: tuple[ast.expr, ...] = ()  # what comprehensions iterate over
    branches: tuple[ast.expr, ...] = ()  # conditions of every if around, negated for its else


@dataclass(frozen=True, slots=True)
class Call:
    """A call, its name with import aliases resolved ("torch.utils.data.DataLoader")."""

    name: str
    last: str  # of the name's parts
    node: ast.Call
    around: Around

    @property
    def base(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def line(self) -> int:
        return self.node.lineno

    @property
    def file(self) -> str:
        return self.around.file

    def argument(self, *names: str, position: int | None = None) -> ast.expr | None:
        """The argument of one of these names, or the one at a position."""
        for name in names:
            for keyword in self.node.keywords:
                if keyword.arg == name:
                    return keyword.value
        if position is not None and len(self.node.args) > position:
            found = self.node.args[position]
            return None if isinstance(found, ast.Starred) else found
        return None

    def has(self, *names: str) -> bool:
        return any(keyword.arg in names for keyword in self.node.keywords)

    @property
    def spreads(self) -> bool:
        """Whether it takes **options that are written elsewhere."""
        return any(keyword.arg is None for keyword in self.node.keywords)


@dataclass(frozen=True, slots=True)
class Assigned:
    """A value bound to a name: `how` is one of name, attribute, path, field, default, key, passed, keyword."""

    node: ast.expr
    line: int
    around: Around
    how: str


@dataclass(slots=True)
class Facts:
    """Everything the readers of single fields look at."""

    sources: tuple[Source, ...]
    imports: dict[str, str] = field(default_factory=dict)
    modules: list[tuple[str, str, int]] = field(default_factory=list)  # dotted module, file, line
    lazy: set[tuple[str, int]] = field(default_factory=set)  # imports inside functions: file, line
    picks: list[tuple[ast.Subscript, Around]] = field(default_factory=list)  # TABLE[name], not TABLE["name"]
    calls: list[Call] = field(default_factory=list)
    assigned: dict[str, list[Assigned]] = field(default_factory=lambda: defaultdict(list))
    loops: list[tuple[Loop, Around]] = field(default_factory=list)
    classes: dict[str, tuple[ast.ClassDef, Around]] = field(default_factory=dict)
    functions: dict[str, tuple[ast.FunctionDef | ast.AsyncFunctionDef, Around]] = field(default_factory=dict)
    defined: list[tuple[str, str]] = field(default_factory=list)  # functions: name, file
    made_by: dict[str, str] = field(default_factory=dict)  # variable -> what was called to make it
    depths: dict[str, int] = field(default_factory=dict)  # function -> loops around its calls

    def bind(self, name: str, bound: "Assigned") -> None:
        if len(self.assigned[name]) < MOST_BOUND:
            self.assigned[name].append(bound)

    def calls_of(self, *lasts: str) -> Iterator[Call]:
        return (call for call in self.calls if call.last in lasts)

    def first(self, *lasts: str) -> Call | None:
        return next(self.calls_of(*lasts), None)

    def imports_any(self, *roots: str) -> tuple[str, int] | None:
        """File and line of the first import of one of these packages."""
        for module, file, line in self.modules:
            if any(module == root or module.startswith(root + ".") for root in roots):
                return file, line
        return None

    def maker(self, call: Call) -> str:
        """What made the object a method is called on, as far as that is known."""
        base = call.base.rpartition(".")[2] or call.base
        return self.made_by.get(base, "")

    def depth(self, call: Call) -> int:
        """How many loops run around a call, those around its function included."""
        return len(call.around.loops) + self.depths.get(call.around.function, 0)


def gather(sources: Iterable[Source]) -> Facts:
    facts = Facts(tuple(sources))
    for source in facts.sources:
        _imports(source, facts)
    for source in facts.sources:
        _walk(source, facts)
    order = {source.name: at for at, source in enumerate(facts.sources)}
    facts.calls.sort(key=lambda call: (order[call.file], call.line))
    _find_depths(facts)
    _pass_arguments(facts)
    return facts


def dotted(node: ast.AST, imports: dict[str, str]) -> str:
    """`nn.Linear` as "torch.nn.Linear"; what is not a chain of names begins with '?'."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(imports.get(node.id, node.id))
    elif isinstance(node, ast.Subscript):
        parts.append(dotted(node.value, imports) + "[]")
    elif isinstance(node, ast.Call):
        parts.append(dotted(node.func, imports) + "()")
    else:
        parts.append("?")
    return ".".join(reversed(parts))


def imported(source: Source) -> list[str]:
    """The modules it imports, in the order of their lines."""
    facts = Facts((source,))
    _imports(source, facts)
    return [module for module, _, _ in facts.modules]


def _imports(source: Source, facts: Facts) -> None:
    found: list[tuple[str, str, int]] = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                found.append((alias.name, source.name, node.lineno))
                facts.imports[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append((node.module, source.name, node.lineno))
            for alias in node.names:
                facts.imports[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    facts.modules += sorted(found, key=lambda module: module[2])


def _walk(source: Source, facts: Facts) -> None:
    """Depth first without recursion: generated code nests deeper than Python's stack."""
    stack: list[tuple[ast.AST, Around]] = [(source.tree, Around(source.name))]
    while stack:
        node, around = stack.pop()
        _note(node, around, facts)
        stack.extend(reversed(list(_children(node, around))))


def _children(node: ast.AST, around: Around) -> Iterator[tuple[ast.AST, Around]]:
    if isinstance(node, _FUNCTIONS):
        inside = replace(around, function=node.name, loops=(), guards=())
        yield from ((child, inside) for child in node.body)
        yield from ((child, around) for child in [*node.decorator_list, *node.args.defaults])
    elif isinstance(node, ast.ClassDef):
        yield from ((child, replace(around, owner=node.name)) for child in node.body)
        yield from ((child, around) for child in node.decorator_list)
    elif isinstance(node, Loop):
        inside = replace(around, loops=(*around.loops, node), guards=())
        yield from ((child, around) for child in _heads(node))
        yield from ((child, inside) for child in [*node.body, *node.orelse])
    elif isinstance(node, ast.If) and _is_main(node.test):
        yield from ((child, around) for child in [*node.body, *node.orelse])
    elif isinstance(node, ast.If):
        inside = replace(around, guards=(*around.guards, node.test), branches=(*around.branches, node.test))
        other = replace(inside, branches=(*around.branches, _negated(node.test)))
        yield node.test, around
        yield from ((child, inside) for child in node.body)
        yield from ((child, other) for child in node.orelse)
    elif isinstance(node, ast.Match):
        yield node.subject, around
        for case, test in _cases(node):
            branches = (*around.branches, test)
            inside = replace(around, guards=(*around.guards, test), branches=branches)
            yield from ((child, inside) for child in ([case.guard] if case.guard else []))
            yield from ((child, inside) for child in case.body)
    elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
        inside = replace(around, repeats=(*around.repeats, *(g.iter for g in node.generators)))
        yield from ((g.iter, around) for g in node.generators)
        yield node.elt, inside
    elif not isinstance(node, ast.Name | ast.Constant):
        yield from ((child, around) for child in ast.iter_child_nodes(node))


def _cases(node: ast.Match) -> Iterator[tuple[ast.match_case, ast.expr]]:
    """Each case with the condition an if would have: `case "a" | "b":` is `subject in ("a", "b")`."""
    before: list[ast.expr] = []
    for case in node.cases:
        parts = case.pattern.patterns if isinstance(case.pattern, ast.MatchOr) else [case.pattern]
        values = [part.value for part in parts if isinstance(part, ast.MatchValue)]
        alone = len(values) == len(parts)
        words = ast.Tuple(values if alone else before, ast.Load())
        test = ast.Compare(node.subject, [ast.In() if alone else ast.NotIn()], [words])
        before += values if case.guard is None else []
        yield case, ast.fix_missing_locations(ast.copy_location(test, node.subject))


def _is_main(test: ast.expr) -> bool:
    """if __name__ == "__main__": is no condition of the training."""
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _negated(test: ast.expr) -> ast.expr:
    return ast.copy_location(ast.UnaryOp(ast.Not(), test), test)


def _heads(node: Loop) -> list[ast.expr]:
    return [node.test] if isinstance(node, ast.While) else [node.iter]


def _note(node: ast.AST, around: Around, facts: Facts) -> None:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            _bind(target, node.value, around, facts)
    elif isinstance(node, ast.NamedExpr):
        _bind(node.target, node.value, around, facts)
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        _bind(node.target, node.value, around, facts, field_of=around.owner and not around.function)
    elif isinstance(node, ast.Call):
        _call(node, around, facts)
    elif isinstance(node, ast.Dict):
        _keys(node, around, facts)
    elif isinstance(node, Loop):
        facts.loops.append((node, around))
    elif isinstance(node, ast.Import | ast.ImportFrom):
        if around.function:
            facts.lazy.add((around.file, node.lineno))
    elif isinstance(node, ast.Subscript):
        if isinstance(node.slice, ast.Name | ast.Attribute):
            facts.picks.append((node, around))
    elif isinstance(node, ast.ClassDef):
        facts.classes.setdefault(node.name, (node, around))
    elif isinstance(node, _FUNCTIONS):
        facts.functions.setdefault(node.name, (node, around))
        facts.defined.append((node.name, around.file))
        _defaults(node, around, facts)
    elif isinstance(node, ast.withitem) and isinstance(node.context_expr, ast.Call) and node.optional_vars:
        _bind(node.optional_vars, node.context_expr, around, facts)


def _bind(target: ast.expr, value: ast.expr, around: Around, facts: Facts, field_of: object = "") -> None:
    if isinstance(target, ast.Tuple | ast.List):
        _bind_several(target, value, around, facts)
        return
    name, how = _target_name(target)
    if not name:
        return
    bound = Assigned(value, value.lineno, around, "field" if field_of else how)
    for spelling in dict.fromkeys([normal(name), normal(name).rpartition(".")[2]]):
        facts.bind(spelling, bound)
    made = _unwrapped(value).func if isinstance(value, ast.Call) else None
    if made is not None:
        made_by = dotted(made, facts.imports)
        if made_by.rpartition(".")[2] not in _WRAPPERS:
            facts.made_by.setdefault(name.rpartition(".")[2], made_by)


def _unwrapped(made: ast.Call) -> ast.Call:
    """network(args).to(device) is made by network."""
    while isinstance(made.func, ast.Attribute) and made.func.attr in _WRAPPERS:
        if not isinstance(made.func.value, ast.Call):
            break
        made = made.func.value
    return made


def _bind_several(target: ast.Tuple | ast.List, value: ast.expr, around: Around, facts: Facts) -> None:
    if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
        for single, part in zip(target.elts, value.elts, strict=True):
            _bind(single, part, around, facts)


def _target_name(target: ast.expr) -> tuple[str, str]:
    if isinstance(target, ast.Name):
        return target.id, "name"
    if isinstance(target, ast.Attribute):
        parts: list[str] = [target.attr]
        inner: ast.expr = target.value
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        return ".".join(reversed(parts)), "path" if len(parts) > 1 else "attribute"
    if isinstance(target, ast.Subscript) and isinstance(target.slice, ast.Constant):
        return str(target.slice.value), "key"
    return "", ""


def _call(node: ast.Call, around: Around, facts: Facts) -> None:
    name = dotted(node.func, facts.imports)
    facts.calls.append(Call(name, name.rpartition(".")[2], node, around))
    for keyword in node.keywords:
        if keyword.arg:
            bound = Assigned(keyword.value, node.lineno, around, "keyword")
            facts.bind("=" + normal(keyword.arg), bound)


def _keys(node: ast.Dict, around: Around, facts: Facts) -> None:
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            facts.bind(normal(key.value), Assigned(value, value.lineno, around, "key"))
            _inner_keys(normal(key.value), value, around, facts)


def _inner_keys(outer: str, node: ast.expr, around: Around, facts: Facts) -> None:
    """{"fp16": {"enabled": True}} is also fp16.enabled."""
    if not isinstance(node, ast.Dict):
        return
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            name = f"{outer}.{normal(key.value)}"
            facts.bind(name, Assigned(value, value.lineno, around, "key"))


def _defaults(node: ast.FunctionDef | ast.AsyncFunctionDef, around: Around, facts: Facts) -> None:
    plain = [*node.args.posonlyargs, *node.args.args]
    pairs: list[tuple[ast.arg, ast.expr | None]] = list(
        zip(plain[len(plain) - len(node.args.defaults) :], node.args.defaults, strict=True)
    )
    pairs += zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    inside = replace(around, function=node.name)
    for argument, value in pairs:
        if value is not None:
            facts.bind(normal(argument.arg), Assigned(value, value.lineno, inside, "default"))


def _find_depths(facts: Facts) -> None:
    """Loops around the calls of each function, through up to four functions that call each other."""
    uses = [call for call in facts.calls if call.last in facts.functions]
    for _ in range(4):
        for call in uses:
            deeper = min(len(call.around.loops) + facts.depths.get(call.around.function, 0), 4)
            if call.last != call.around.function and deeper > facts.depths.get(call.last, 0):
                facts.depths[call.last] = deeper


def _pass_arguments(facts: Facts) -> None:
    """What a call of the code's own functions and classes gives to their parameters."""
    known: dict[str, list[str]] = {}
    for call in facts.calls:
        if call.last not in known:
            known[call.last] = _parameters(facts, call.last)
        names = known[call.last]
        given = [*zip(names, call.node.args, strict=False)]
        given += [(k.arg, k.value) for k in call.node.keywords if k.arg in names]
        for name, node in given:
            if name and not isinstance(node, ast.Starred):
                facts.bind(normal(name), Assigned(node, node.lineno, call.around, "passed"))


def _parameters(facts: Facts, name: str) -> list[str]:
    if name in facts.classes:
        body = facts.classes[name][0].body
        made = next((f for f in body if isinstance(f, ast.FunctionDef) and f.name == "__init__"), None)
        return [a.arg for a in made.args.args[1:]] if made is not None else []
    if name in facts.functions:
        plain = [a.arg for a in facts.functions[name][0].args.args]
        return plain[1:] if plain[:1] == ["self"] else plain
    return []


def normal(name: str) -> str:
    """One spelling for --Batch-Size, batch_size and BATCH_SIZE."""
    return name.lstrip("-").lower().replace("-", "_")
