"""Parameters of a network that is written out: the weights of every layer whose sizes can be known."""

import ast
from collections.abc import Callable

from anygpu.plan.analyse.code import Code
from anygpu.plan.analyse.facts import Call
from anygpu.plan.analyse.settings import Value

_BASES = ("Module", "LightningModule", "Model", "Layer")
_NORMS = ("Norm", "Norm1d", "Norm2d", "Flatten", "Reshape")
_LARGEST = 5 * 10**12


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
    calls = [call for call in code.facts.calls if call.last in _SIZES and _wanted(call, own)]
    total, unknown, line, file = 0, 0, 0, ""
    keras_width: dict[str, int] = {}
    parts = _Parts(code, own)
    for call in calls:
        size = _SIZES[call.last](code, call) or _chained(code, call, keras_width)
        total += size * _times(code, call) * parts.times(call.around.owner)
        unknown += not size and not call.last.endswith(_NORMS)
        line, file = line or call.line, file or call.file
    trusted = unknown <= len(calls) * (0 if keras_width else 0.4)
    return (total, line, file) if trusted and total < _LARGEST else (0, 0, "")


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


def _int(told: Value | None) -> int:
    value = told.value if told is not None else None
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0


def _pair(code: Code, call: Call, position: int, *names: str) -> int:
    """A kernel: 3 is 3 x 3, (3, 5) is 3 x 5."""
    node = call.argument(*names, position=position)
    if isinstance(node, ast.Tuple | ast.List):
        area = 1
        for part in node.elts:
            area *= _int(code.settings.number(part))
        return area
    side = _int(code.settings.number(node))
    return side if call.last.endswith("1d") else side**3 if call.last.endswith("3d") else side * side


def _linear(code: Code, call: Call) -> int:
    rows = _int(code.settings.number(call.argument("in_features", position=0)))
    columns = _int(code.settings.number(call.argument("out_features", position=1)))
    return rows * columns + columns if rows and columns else 0


def _conv(code: Code, call: Call) -> int:
    takes = _int(code.settings.number(call.argument("in_channels", position=0)))
    gives = _int(code.settings.number(call.argument("out_channels", position=1)))
    kernel = _pair(code, call, 2, "kernel_size")
    groups = _int(code.settings.number(call.argument("groups"))) or 1
    return takes * gives * kernel // groups + gives if takes and gives and kernel else 0


def _embedding(code: Code, call: Call) -> int:
    rows = _int(code.settings.number(call.argument("num_embeddings", "input_dim", position=0)))
    width = _int(code.settings.number(call.argument("embedding_dim", "output_dim", position=1)))
    return rows * width


def _recurrent(gates: int) -> Callable[[Code, Call], int]:
    def size(code: Code, call: Call) -> int:
        takes = _int(code.settings.number(call.argument("input_size", position=0)))
        hidden = _int(code.settings.number(call.argument("hidden_size", position=1)))
        deep = _int(code.settings.number(call.argument("num_layers", position=2))) or 1
        both = code.settings.of(call.argument("bidirectional"))
        ways = 2 if both is not None and both.value is True else 1
        first = gates * hidden * (takes + hidden + 2)
        more = gates * hidden * (hidden * ways + hidden + 2)
        return ways * (first + (deep - 1) * more) if takes and hidden else 0

    return size


def _norm(code: Code, call: Call) -> int:
    return 2 * _int(code.settings.number(call.argument("num_features", "normalized_shape", position=0)))


def _chained_only(code: Code, call: Call) -> int:
    return 0


def _chained(code: Code, call: Call, widths: dict[str, int]) -> int:
    """Keras layers know only their outputs: each takes what the one before gave."""
    if call.last in ("Flatten", "Reshape"):
        widths["last"] = -1  # the width after it depends on the picture
    if call.last not in ("Dense", "Conv2D", "Conv1D"):
        return 0
    gives = _int(code.settings.number(call.argument("units", "filters", "features", position=0)))
    takes = max(widths.get("last") or _input_width(code, call), 0)
    kernel = 1
    if call.last != "Dense":
        side = call.argument("kernel_size", position=1)
        node = side.elts[0] if isinstance(side, ast.Tuple | ast.List) and side.elts else side
        width = _int(code.settings.number(node))
        kernel = width * width if call.last == "Conv2D" else width
    widths["last"] = gives
    return takes * gives * kernel + gives if takes and gives else 0


def _input_width(code: Code, call: Call) -> int:
    for source in (call, code.facts.first("Input", "InputLayer", "Flatten")):
        node = (
            source.argument("input_shape", "shape", "input_dim", position=0) if source is not None else None
        )
        node = node.elts[-1] if isinstance(node, ast.Tuple | ast.List) and node.elts else node
        width = (
            _int(code.settings.number(node))
            if source is not call or call.has("input_shape", "input_dim")
            else 0
        )
        if width:
            return width
    return 0


_SIZES: dict[str, Callable[[Code, Call], int]] = {
    "Linear": _linear,
    "Conv1d": _conv,
    "Conv2d": _conv,
    "Conv3d": _conv,
    "ConvTranspose2d": _conv,
    "Embedding": _embedding,
    "LSTM": _recurrent(4),
    "GRU": _recurrent(3),
    "RNN": _recurrent(1),
    "LayerNorm": _norm,
    "BatchNorm1d": _norm,
    "BatchNorm2d": _norm,
    "Flatten": _chained_only,
    "Dense": _chained_only,
    "Conv2D": _chained_only,
    "Conv1D": _chained_only,
}
