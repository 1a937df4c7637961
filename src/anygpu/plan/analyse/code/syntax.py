"""Collect imports, calls, assignments and loops from syntax trees, each with file and line."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from anygpu.plan.analyse.code.source import SourceFile

MAX_BINDINGS = 100  # values of one name: generated code binds `x` thousands of times

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
class CodeContext:
    """Where a piece of code is: its file, and the loops, conditions, function and class around it."""

    file: str
    loops: tuple[Loop, ...] = ()
    guards: tuple[ast.expr, ...] = ()  # conditions of the ifs inside the innermost loop
    function: str = ""
    owner: str = ""  # the class
    repeats: tuple[ast.expr, ...] = ()  # iterables of the comprehensions around
    branches: tuple[ast.expr, ...] = ()  # conditions of every if around, negated for its else


@dataclass(frozen=True, slots=True)
class CallSite:
    """A call in the code.

    Its name is complete, such as "torch.utils.data.DataLoader", even if the code uses an import alias.
    """

    name: str
    short_name: str  # last part of the name
    node: ast.Call
    context: CodeContext

    @property
    def base(self) -> str:
        return self.name.rpartition(".")[0]

    @property
    def line(self) -> int:
        return self.node.lineno

    @property
    def file(self) -> str:
        return self.context.file

    def argument(self, *names: str, position: int | None = None) -> ast.expr | None:
        """Return the argument with one of `names`, else the one at `position`; None if there is neither."""
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
        """Whether the call has an argument like `**options`, which may set any option."""
        return any(keyword.arg is None for keyword in self.node.keywords)


@dataclass(frozen=True, slots=True)
class NameBinding:
    """An expression that gives a name its value.

    `how` says by what: an assignment to a name, attribute or path (`a.b.c`), a class field, a parameter's
    default, a dictionary key, or an argument (`passed` to the code's own functions, `keyword` of any call).
    """

    node: ast.expr
    line: int
    context: CodeContext
    how: str


@dataclass(slots=True)
class SyntaxFacts:
    """Everything that was collected from the syntax trees of the user's code."""

    sources: tuple[SourceFile, ...]
    imports: dict[str, str] = field(default_factory=dict)
    modules: list[tuple[str, str, int]] = field(default_factory=list)  # dotted module, file, line
    lazy_imports: set[tuple[str, int]] = field(default_factory=set)  # imports inside functions: file, line
    lookups: list[tuple[ast.Subscript, CodeContext]] = field(
        default_factory=list
    )  # TABLE[name], not TABLE["name"]
    calls: list[CallSite] = field(default_factory=list)
    bindings: dict[str, list[NameBinding]] = field(default_factory=lambda: defaultdict(list))
    loops: list[tuple[Loop, CodeContext]] = field(default_factory=list)
    classes: dict[str, tuple[ast.ClassDef, CodeContext]] = field(default_factory=dict)
    functions: dict[str, tuple[ast.FunctionDef | ast.AsyncFunctionDef, CodeContext]] = field(
        default_factory=dict
    )
    function_files: list[tuple[str, str]] = field(default_factory=list)  # functions: name, file
    # Variable -> name of the call that created its value.
    made_by: dict[str, str] = field(default_factory=dict)
    function_depths: dict[str, int] = field(default_factory=dict)  # function -> loops around its calls

    def bind(self, name: str, binding: "NameBinding") -> None:
        if len(self.bindings[name]) < MAX_BINDINGS:
            self.bindings[name].append(binding)

    def calls_of(self, *lasts: str) -> Iterator[CallSite]:
        return (call for call in self.calls if call.short_name in lasts)

    def first_call(self, *lasts: str) -> CallSite | None:
        return next(self.calls_of(*lasts), None)

    def imports_any(self, *roots: str) -> tuple[str, int] | None:
        """Return file and line of the first import of one of the packages `roots`; None if there is none."""
        for module, file, line in self.modules:
            if any(module == root or module.startswith(root + ".") for root in roots):
                return file, line
        return None

    def maker_of(self, call: CallSite) -> str:
        """Return which call created the object whose method is called, such as "YOLO" for `YOLO(...).train()`.

        Empty if that is unknown.
        """
        base = call.base.rpartition(".")[2] or call.base
        return self.made_by.get(base, "")

    def loop_depth(self, call: CallSite) -> int:
        """Return the number of loops around a call, including those around calls of the function it is in."""
        return len(call.context.loops) + self.function_depths.get(call.context.function, 0)


def gather_facts(sources: Iterable[SourceFile]) -> SyntaxFacts:
    facts = SyntaxFacts(tuple(sources))
    for source in facts.sources:
        _imports(source, facts)
    for source in facts.sources:
        _walk(source, facts)
    order = {source.name: at for at, source in enumerate(facts.sources)}
    facts.calls.sort(key=lambda call: (order[call.file], call.line))
    _find_depths(facts)
    _pass_arguments(facts)
    return facts


def dotted_name(node: ast.AST, imports: dict[str, str]) -> str:
    """Return the full name of an expression, such as "torch.nn.Linear" for `nn.Linear`.

    The result begins with "?" if the expression does not begin with a name.
    """
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if isinstance(node, ast.Name):
        parts.append(imports.get(node.id, node.id))
    elif isinstance(node, ast.Subscript):
        parts.append(dotted_name(node.value, imports) + "[]")
    elif isinstance(node, ast.Call):
        parts.append(dotted_name(node.func, imports) + "()")
    else:
        parts.append("?")
    return ".".join(reversed(parts))


def imported_modules(source: SourceFile) -> list[str]:
    """Return the names of the modules that a file imports, in the order of the import statements."""
    facts = SyntaxFacts((source,))
    _imports(source, facts)
    return [module for module, _, _ in facts.modules]


def _imports(source: SourceFile, facts: SyntaxFacts) -> None:
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


def _walk(source: SourceFile, facts: SyntaxFacts) -> None:
    """Visit all nodes of a file's syntax tree, depth first, and record what they contain in `facts`.

    The function is not recursive, because generated code can be nested deeper than Python's stack allows.
    """
    stack: list[tuple[ast.AST, CodeContext]] = [(source.tree, CodeContext(source.name))]
    while stack:
        node, context = stack.pop()
        _record(node, context, facts)
        stack.extend(reversed(list(_child_nodes(node, context))))


def _child_nodes(node: ast.AST, context: CodeContext) -> Iterator[tuple[ast.AST, CodeContext]]:
    if isinstance(node, _FUNCTIONS):
        inside = replace(context, function=node.name, loops=(), guards=())
        yield from ((child, inside) for child in node.body)
        yield from ((child, context) for child in [*node.decorator_list, *node.args.defaults])
    elif isinstance(node, ast.ClassDef):
        yield from ((child, replace(context, owner=node.name)) for child in node.body)
        yield from ((child, context) for child in node.decorator_list)
    elif isinstance(node, Loop):
        inside = replace(context, loops=(*context.loops, node), guards=())
        yield from ((child, context) for child in _loop_heads(node))
        yield from ((child, inside) for child in [*node.body, *node.orelse])
    elif isinstance(node, ast.If) and _is_main(node.test):
        yield from ((child, context) for child in [*node.body, *node.orelse])
    elif isinstance(node, ast.If):
        inside = replace(
            context, guards=(*context.guards, node.test), branches=(*context.branches, node.test)
        )
        other = replace(inside, branches=(*context.branches, _negate(node.test)))
        yield node.test, context
        yield from ((child, inside) for child in node.body)
        yield from ((child, other) for child in node.orelse)
    elif isinstance(node, ast.Match):
        yield node.subject, context
        for case, test in _cases(node):
            branches = (*context.branches, test)
            inside = replace(context, guards=(*context.guards, test), branches=branches)
            yield from ((child, inside) for child in ([case.guard] if case.guard else []))
            yield from ((child, inside) for child in case.body)
    elif isinstance(node, ast.ListComp | ast.GeneratorExp | ast.SetComp):
        inside = replace(context, repeats=(*context.repeats, *(g.iter for g in node.generators)))
        yield from ((g.iter, context) for g in node.generators)
        yield node.elt, inside
    elif not isinstance(node, ast.Name | ast.Constant):
        yield from ((child, context) for child in ast.iter_child_nodes(node))


def _cases(node: ast.Match) -> Iterator[tuple[ast.match_case, ast.expr]]:
    """Yield each case of a `match` with its condition.

    For `case "a" | "b":` the condition is `subject in ("a", "b")`.
    """
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
    """Return whether a condition compares `__name__`, as in `if __name__ == "__main__":`."""
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _negate(test: ast.expr) -> ast.expr:
    return ast.copy_location(ast.UnaryOp(ast.Not(), test), test)


def _loop_heads(node: Loop) -> list[ast.expr]:
    return [node.test] if isinstance(node, ast.While) else [node.iter]


def _record(node: ast.AST, context: CodeContext, facts: SyntaxFacts) -> None:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            _bind(target, node.value, context, facts)
    elif isinstance(node, ast.NamedExpr):
        _bind(node.target, node.value, context, facts)
    elif isinstance(node, ast.AnnAssign) and node.value is not None:
        _bind(node.target, node.value, context, facts, field_of=context.owner and not context.function)
    elif isinstance(node, ast.Call):
        _record_call(node, context, facts)
    elif isinstance(node, ast.Dict):
        _record_keys(node, context, facts)
    elif isinstance(node, Loop):
        facts.loops.append((node, context))
    elif isinstance(node, ast.Import | ast.ImportFrom):
        if context.function:
            facts.lazy_imports.add((context.file, node.lineno))
    elif isinstance(node, ast.Subscript):
        if isinstance(node.slice, ast.Name | ast.Attribute):
            facts.lookups.append((node, context))
    elif isinstance(node, ast.ClassDef):
        facts.classes.setdefault(node.name, (node, context))
    elif isinstance(node, _FUNCTIONS):
        facts.functions.setdefault(node.name, (node, context))
        facts.function_files.append((node.name, context.file))
        _record_defaults(node, context, facts)
    elif isinstance(node, ast.withitem) and isinstance(node.context_expr, ast.Call) and node.optional_vars:
        _bind(node.optional_vars, node.context_expr, context, facts)


def _bind(
    target: ast.expr, value: ast.expr, context: CodeContext, facts: SyntaxFacts, field_of: object = ""
) -> None:
    if isinstance(target, ast.Tuple | ast.List):
        _bind_several(target, value, context, facts)
        return
    name, how = _target_name(target)
    if not name:
        return
    binding = NameBinding(value, value.lineno, context, "field" if field_of else how)
    for spelling in dict.fromkeys([normalise_name(name), normalise_name(name).rpartition(".")[2]]):
        facts.bind(spelling, binding)
    made = _unwrap(value).func if isinstance(value, ast.Call) else None
    if made is not None:
        made_by = dotted_name(made, facts.imports)
        if made_by.rpartition(".")[2] not in _WRAPPERS:
            facts.made_by.setdefault(name.rpartition(".")[2], made_by)


def _unwrap(made: ast.Call) -> ast.Call:
    """Return the call that creates the object: for `network(args).to(device)` this is `network(args)`."""
    while isinstance(made.func, ast.Attribute) and made.func.attr in _WRAPPERS:
        if not isinstance(made.func.value, ast.Call):
            break
        made = made.func.value
    return made


def _bind_several(
    target: ast.Tuple | ast.List, value: ast.expr, context: CodeContext, facts: SyntaxFacts
) -> None:
    if isinstance(value, ast.Tuple | ast.List) and len(value.elts) == len(target.elts):
        for single, part in zip(target.elts, value.elts, strict=True):
            _bind(single, part, context, facts)


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


def _record_call(node: ast.Call, context: CodeContext, facts: SyntaxFacts) -> None:
    name = dotted_name(node.func, facts.imports)
    facts.calls.append(CallSite(name, name.rpartition(".")[2], node, context))
    for keyword in node.keywords:
        if keyword.arg:
            binding = NameBinding(keyword.value, node.lineno, context, "keyword")
            facts.bind("=" + normalise_name(keyword.arg), binding)


def _record_keys(node: ast.Dict, context: CodeContext, facts: SyntaxFacts) -> None:
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            facts.bind(normalise_name(key.value), NameBinding(value, value.lineno, context, "key"))
            _record_inner_keys(normalise_name(key.value), value, context, facts)


def _record_inner_keys(outer: str, node: ast.expr, context: CodeContext, facts: SyntaxFacts) -> None:
    """Record the keys of a nested dictionary by their dotted names.

    In `{"fp16": {"enabled": True}}`, the dotted name is `fp16.enabled`.
    """
    if not isinstance(node, ast.Dict):
        return
    for key, value in zip(node.keys, node.values, strict=True):
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            name = f"{outer}.{normalise_name(key.value)}"
            facts.bind(name, NameBinding(value, value.lineno, context, "key"))


def _record_defaults(
    node: ast.FunctionDef | ast.AsyncFunctionDef, context: CodeContext, facts: SyntaxFacts
) -> None:
    plain = [*node.args.posonlyargs, *node.args.args]
    pairs: list[tuple[ast.arg, ast.expr | None]] = list(
        zip(plain[len(plain) - len(node.args.defaults) :], node.args.defaults, strict=True)
    )
    pairs += zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    inside = replace(context, function=node.name)
    for argument, value in pairs:
        if value is not None:
            facts.bind(normalise_name(argument.arg), NameBinding(value, value.lineno, inside, "default"))


def _find_depths(facts: SyntaxFacts) -> None:
    """Count the loops around the calls of each function. Loops around the callers count too, up to four levels."""
    uses = [call for call in facts.calls if call.short_name in facts.functions]
    for _ in range(4):
        for call in uses:
            deeper = min(len(call.context.loops) + facts.function_depths.get(call.context.function, 0), 4)
            if call.short_name != call.context.function and deeper > facts.function_depths.get(
                call.short_name, 0
            ):
                facts.function_depths[call.short_name] = deeper


def _pass_arguments(facts: SyntaxFacts) -> None:
    """Record the arguments of calls as values of the parameters of the code's own functions and classes."""
    parameters_of: dict[str, list[str]] = {}
    for call in facts.calls:
        if call.short_name not in parameters_of:
            parameters_of[call.short_name] = _parameters(facts, call.short_name)
        names = parameters_of[call.short_name]
        arguments = [*zip(names, call.node.args, strict=False)]
        arguments += [(k.arg, k.value) for k in call.node.keywords if k.arg in names]
        for name, node in arguments:
            if name and not isinstance(node, ast.Starred):
                facts.bind(normalise_name(name), NameBinding(node, node.lineno, call.context, "passed"))


def _parameters(facts: SyntaxFacts, name: str) -> list[str]:
    if name in facts.classes:
        body = facts.classes[name][0].body
        made = next((f for f in body if isinstance(f, ast.FunctionDef) and f.name == "__init__"), None)
        return [a.arg for a in made.args.args[1:]] if made is not None else []
    if name in facts.functions:
        plain = [a.arg for a in facts.functions[name][0].args.args]
        return plain[1:] if plain[:1] == ["self"] else plain
    return []


def normalise_name(name: str) -> str:
    """Return a name in one common spelling: `--Batch-Size` and `BATCH_SIZE` become `batch_size`."""
    return name.lstrip("-").lower().replace("-", "_")
