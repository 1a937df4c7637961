"""How large the model is: by its name, by its configuration, or by its layers."""

import re

from anygpu.plan import models
from anygpu.plan.analyse import layers
from anygpu.plan.analyse.built import built
from anygpu.plan.analyse.chained import chained
from anygpu.plan.analyse.code import Code
from anygpu.plan.analyse.findings import GUESS, LIKELY, Found
from anygpu.plan.analyse.model import parts
from anygpu.plan.analyse.sizes import LARGEST

_HF_CONFIG = re.compile(r"^([A-Z]\w*?)Config$")


def parameters(code: Code, name: Found[str] | None) -> Found[int] | None:
    """From the table, from the name itself, from a transformer's configuration, from the layers written out."""
    for reader in (_built, _from_table, _transformer, _configured, _layered, _spelled):
        found = reader(code, name)
        if found is not None and 0 < found.value <= LARGEST:
            return found
    return None


def _built(code: Code, name: Found[str] | None) -> Found[int] | None:
    """A network of the code's own is what it builds, whatever famous name it has."""
    own = layers.networks(code)
    made = built(code, own, name.value) if name is not None and name.value in own else None
    made = made or (chained(code) if name is not None and name.confidence <= LIKELY else None)
    shapes = [models.lookup(part.value) for part in parts(code, name.value)] if name is not None else []
    inside = sum(shape.parameters for shape in shapes if shape is not None)
    if name is None or (made is None and not inside):
        return None
    total, file, line = inside, name.file, name.line
    if made is not None:
        total, file, line = inside + made.weights, made.file, made.line
    return Found(value=total, file=file, line=line, confidence=GUESS, because="counted as it is built")


def _from_table(code: Code, name: Found[str] | None) -> Found[int] | None:
    shape = models.lookup(name.value) if name is not None else None
    if name is None or shape is None:
        return None
    return Found(
        value=shape.parameters, file=name.file, line=name.line, confidence=name.confidence, because="known"
    )


def _spelled(code: Code, name: Found[str] | None) -> Found[int] | None:
    count = models.parameters_in_name(name.value) if name is not None else None
    if name is None or count is None:
        return None
    return Found(value=count, file=name.file, line=name.line, confidence=GUESS, because="the name says so")


_LAYERS = ("n_layer", "n_layers", "num_layers", "num_hidden_layers", "depth", "layers")
_WIDTH = ("n_embd", "d_model", "hidden_size", "embed_dim", "dim", "n_embed", "model_dim", "emb_dim")
_VOCAB = ("vocab_size", "n_vocab", "vocab")
_BLOCK = ("block_size", "n_positions", "max_seq_len", "context_length", "seq_len", "max_position_embeddings")


def _transformer(code: Code, name: Found[str] | None) -> Found[int] | None:
    """GPT-like code is configured by depth and width: twelve widths squared a layer, and the embeddings."""
    depth, width = code.settings.named(*_LAYERS), code.settings.named(*_WIDTH)
    counts = [v.value if v is not None else None for v in (depth, width)]
    if (
        depth is None
        or not all(isinstance(c, int) and c > 0 for c in counts)
        or not _is_transformer(code, name)
    ):
        return None
    layer_count, hidden = (c for c in counts if isinstance(c, int))
    block = code.settings.named(*_BLOCK)
    words = _words(code)
    places = block.value if block is not None and isinstance(block.value, int) else 0
    total = layer_count * (12 * hidden * hidden + 13 * hidden) + (words + places + 2) * hidden
    sure = LIKELY if words else GUESS
    return Found(value=total, file=depth.file, line=depth.line, confidence=sure, because="depth and width")


def _words(code: Code) -> int:
    """The vocabulary, by name or from the embedding; twice when the output layer has its own."""
    told = code.settings.named(*_VOCAB)
    if told is not None and isinstance(told.value, int):
        return told.value
    for call in code.facts.calls_of("Embed", "Embedding"):
        size = code.settings.number(call.argument("vocab_size", "num_embeddings", position=0))
        if size is not None and isinstance(size.value, int):
            outputs = [
                code.settings.number(a) for c in code.facts.calls_of("Linear", "Dense") for a in c.node.args
            ]
            untied = any(o is not None and o.value == size.value for o in outputs)
            return size.value * (2 if untied else 1)
    return 0


def _is_transformer(code: Code, name: Found[str] | None) -> bool:
    text = " ".join(source.text for source in code.facts.sources)
    has_attention = re.search(r"(?i)attention|attn|transformer|gpt", text) is not None
    return has_attention and re.search(r"(?i)lstm|gru\b", name.value if name else "") is None


def _configured(code: Code, name: Found[str] | None) -> Found[int] | None:
    """GPT2Config() without arguments is GPT-2."""
    for call in code.facts.calls:
        match = _HF_CONFIG.match(call.last)
        shape = models.lookup(match[1]) or models.lookup(match[1] + "base") if match else None
        if shape is not None and not call.node.keywords:
            return Found(value=shape.parameters, file=call.file, line=call.line, confidence=GUESS)
    return None


def _layered(code: Code, name: Found[str] | None) -> Found[int] | None:
    count, line, file = layers.count(code, name.value if name is not None else "")
    if not count:
        return None
    return Found(value=count, file=file, line=line, confidence=GUESS, because="counted from the layers")
