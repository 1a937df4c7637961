"""Parameters of a network that is written out: the weights of every layer whose sizes can be known."""

import ast

from anygpu.plan.analyse.code import Code
from anygpu.plan.analyse.facts import Call
from anygpu.plan.analyse.sizes import LARGEST, NORMS, SIZES, Arguments

_BASES = ("Module", "LightningModule", "Model", "Layer")
_ALL = SIZES | NORMS


def networks(code: Code) -> set[str]:
    """Classes of the code that are networks, their subclasses included."""
    found: set[str] = set()
    for _ in range(4):
        for name, (node, _around) in code.facts.classes.items():
            bases = [ast.unparse(base).rpartition(".")[2] for base in node.bases]
            if any(base in _BASES or base in found for base in bases) and "DataModule" not in "".join(bases):
                found.add(name)
    return found


def count(code: Code, name: str) -> tuple[int, int, str]:
    """Parameters, and the first line they stand on; zero when nothing is known."""
    own = networks(code)
    calls = [call for call in code.facts.calls if call.last in _ALL and _wanted(call, own)]
    total, unknown, line, file = 0, 0, 0, ""
    parts = _Parts(code, own)
    for call in calls:
        size = _ALL[call.last](_arguments(code, call))
        total += size * _times(code, call) * parts.times(call.around.owner)
        unknown += not size and call.last not in NORMS
        line, file = line or call.line, file or call.file
    trusted = unknown <= len(calls) * 0.4 and not code.has("flax", "keras", "tensorflow")
    return (total, line, file) if trusted and total < LARGEST else (0, 0, "")


class _Parts:
    """How often a class is part of the whole network: a block in a list of twelve, twelve times."""

    def __init__(self, code: Code, own: set[str]) -> None:
        self._code = code
        self._made: dict[str, list[Call]] = {}
        self._known: dict[tuple[str, int], int] = {}
        for call in code.facts.calls:
            if call.around.owner in own and call.around.owner != call.last:
                self._made.setdefault(call.last, []).append(call)

    def times(self, name: str, deep: int = 0) -> int:
        made = self._made.get(name, ()) if name and deep <= 5 else ()
        if (name, deep) not in self._known:
            each = (_times(self._code, call) * self.times(call.around.owner, deep + 1) for call in made)
            self._known[name, deep] = sum(each) if made else 1
        return self._known[name, deep]


def _wanted(call: Call, own: set[str]) -> bool:
    return call.around.owner in own or not call.around.owner


def _times(code: Code, call: Call) -> int:
    """Layers in `[Block(...) for _ in range(12)]` count twelve times."""
    times = 1
    for repeated in call.around.repeats:
        node = repeated.args[-1] if isinstance(repeated, ast.Call) and repeated.args else None
        told = code.settings.number(node)
        if told is not None and isinstance(told.value, int) and 0 < told.value < 1000:
            times *= told.value
    return times


def _arguments(code: Code, call: Call) -> Arguments:
    def get(place: int | None, *names: str) -> object:
        node = call.argument(*names, position=place)
        if isinstance(node, ast.Tuple | ast.List):
            return [told.value if (told := code.settings.number(part)) else None for part in node.elts]
        told = code.settings.of(node)
        return told.value if told is not None else None

    return get
