"""Which frameworks the code trains with."""

from anygpu.plan.analyse.code import Code
from anygpu.plan.analyse.findings import SURE, Found
from anygpu.plan.analyse.packages import PACKAGES

DEEP = frozenset(PACKAGES.values()) - {"scikit-learn", "xgboost", "lightgbm", "catboost", "gensim", "cuml"}
ENVIRONMENTS = frozenset(
    {"gym", "gymnasium", "pettingzoo", "dm_control", "envpool", "procgen", "minigrid", "brax"}
)
TREES = frozenset({"xgboost", "lightgbm", "catboost"})


def read(code: Code) -> tuple[Found[str], ...]:
    found: dict[str, Found[str]] = {}
    for module, file, line in code.facts.modules:
        if (file, line) in code.facts.lazy and file != code.facts.sources[0].name:
            continue  # a helper that may never run: GPT.from_pretrained() of a file beside the script
        name = PACKAGES.get(module.partition(".")[0])
        if name and name not in found:
            found[name] = Found(
                value=name, file=file, line=line, confidence=SURE, because=f"imports {module}"
            )
        if module.startswith(("tensorflow.keras", "tensorflow.python.keras")):
            found.setdefault("keras", Found(value="keras", file=file, line=line, because=f"imports {module}"))
    for call in code.facts.calls:
        if call.name.startswith("tensorflow.keras."):
            found.setdefault("keras", Found(value="keras", file=call.file, line=call.line, because=call.name))
    return _only_training(found)


def environment(code: Code) -> Found[str] | None:
    """What the code learns by acting in; it takes its own time, which no GPU decides."""
    for module, file, line in code.facts.modules:
        name = module.partition(".")[0]
        if name in ENVIRONMENTS:
            return Found(value=name, file=file, line=line, confidence=SURE, because=f"imports {module}")
    return None


def _only_training(found: dict[str, Found[str]]) -> tuple[Found[str], ...]:
    """scikit-learn beside a deep framework splits and scores; it does not train."""
    trains = [f for f in found.values() if f.value != "scikit-learn"]
    kept = trains if any(f.value in DEEP or f.value in TREES for f in trains) else list(found.values())
    return tuple(sorted(kept, key=lambda f: f.value))
