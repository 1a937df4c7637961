"""Number of parameters and layer dimensions of published models, from models.csv."""

import csv
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Literal, cast

ModelKind = Literal["conv", "vit", "yolo", "detector", "encoder", "decoder", "gated", "diffusion"]
MILLION = 1_000_000
MAX_NAME_LENGTH = 300  # a longer text is no name, and slow to compare

_PREFIXES = (
    "tf",
    "tv",
    "gluon",
    "ssl",
    "swsl",
    "ig",
    "legacy",
    "timm",
    "mae",
    "facebook",
    "google",
    "meta",
    "openai",
)
_ALIASES = {
    "swint": "swintiny",
    "swins": "swinsmall",
    "swinb": "swinbase",
    "vitb16": "vitbasepatch16",
    "vitb32": "vitbasepatch32",
    "vitl16": "vitlargepatch16",
    "vith14": "vithugepatch14",
    "vitbase": "vitbasepatch16",
    "vitsmall": "vitsmallpatch16",
    "vitlarge": "vitlargepatch16",
    "regnety16gf": "regnety160",
    "bert": "bertbase",
    "roberta": "robertabase",
    "distilbert": "distilbertbase",
    "fasterrcnnresnet50fpnv2": "fasterrcnnresnet50fpn",
    "densenet": "densenet121",
    "mobilenet": "mobilenetv2",
    "mobilenetv3": "mobilenetv3large",
}
_ENDINGS = re.compile(
    r"(pt|yaml|pth|hf|weights|instruct|chat|base|uncased|cased|it|v0\.\d|v1\.0|v2|v1|v3|"
    r"intermediatestep\w*|in1k|in22k|in21k\w*|ft\w+|a1\w*|ra\w*|augreg\w*|224|384|ns|ap|sam|mini|multilingual|seg|cls|pose|obb|"
    r"patch16|patch32|patch4window7|window7|\d+px|bnb4bit|beta|alpha|100|[1-9]x|1\.0|in12k\w*|finetuned\w*|pretrained|plus|large1.0x)$"
)


@dataclass(frozen=True, slots=True)
class ModelShape:
    """Number of parameters and layer dimensions of a published model."""

    name: str
    kind: ModelKind
    parameters: int
    activations: float = 0.0  # millions, of one image at `size`
    gmacs: float = 0.0  # of one image at `size`; 0 if unknown
    size: int = 224
    layers: int = 0
    hidden: int = 0
    heads: int = 0
    inner: int = 0
    vocab: int = 0  # for image models: the patch size


def find_model(name: str) -> ModelShape | None:
    """Return a model by any library's spelling, such as "meta-llama/Llama-2-7b-hf"; None if unknown."""
    table = _table()
    for candidate in _spellings(name) if len(name) <= MAX_NAME_LENGTH else ():
        if candidate in table:
            return table[candidate]
    return None


def all_models() -> tuple[ModelShape, ...]:
    return tuple(_table().values())


def parameters_in_name(name: str) -> int | None:
    """Return the number of parameters given in a name like `some-model-7b`; None if the name gives none."""
    matches = re.findall(r"(?i)(?<![\w.])(\d+(?:\.\d+)?)\s*(b|m)(?![a-z])", re.sub(r"[-_/]", " ", name))
    if not matches:
        return None
    number, unit = matches[-1]
    value = float(number) * (1e9 if unit.lower() == "b" else 1e6)
    return int(value) if 1e6 <= value <= 2e12 else None


def _spellings(name: str) -> list[str]:
    # Without timm's tags and file extensions.
    bare = re.sub(r"\.(?=[a-z])\w+$", "", name.rpartition("/")[2].lower())
    key = re.sub(r"[^a-z0-9.]", "", bare).strip(".")
    names = [key]
    names += [key.removeprefix(prefix) for prefix in _PREFIXES if key.startswith(prefix)]
    for start in list(names):
        shorter = start
        for _ in range(5):
            cut = _ENDINGS.sub("", shorter).rstrip(".")
            if cut == shorter:
                break
            shorter = cut
            names.append(shorter)
    names += [_ALIASES[t] for t in names if t in _ALIASES]
    return (
        names
        + [t.replace(".", "") for t in names]
        + [t.replace("meta", "").replace("torch", "") for t in names]
    )


@lru_cache(maxsize=1)
def _table() -> dict[str, ModelShape]:
    text = (files("anygpu.plan.hardware") / "models.csv").read_text("utf-8")
    rows = csv.reader(line for line in text.splitlines() if line and not line.startswith("#"))
    return {row[0]: _shape(row) for row in rows}


def _shape(row: list[str]) -> ModelShape:
    name, kind, parameters, activations, gmacs, size, layers, hidden, heads, inner, vocab = row
    return ModelShape(
        name=name,
        kind=cast(ModelKind, kind),
        parameters=int(float(parameters) * MILLION),
        activations=float(activations or 0),
        gmacs=float(gmacs or 0),
        size=int(size or 0),
        layers=int(layers or 0),
        hidden=int(hidden or 0),
        heads=int(heads or 0),
        inner=int(inner or 0),
        vocab=int(vocab or 0),
    )
