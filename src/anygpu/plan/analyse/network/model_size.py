"""Find the number of parameters of a model: by its name, its configuration or its layers."""

import re

from anygpu.plan.analyse.code.training_code import Code
from anygpu.plan.analyse.findings import GUESS, LIKELY, CodeFinding
from anygpu.plan.analyse.network import layer_sizes
from anygpu.plan.analyse.network.keras import count_keras_weights
from anygpu.plan.analyse.network.layer_sizes import MAX_WEIGHTS
from anygpu.plan.analyse.network.model import published_parts
from anygpu.plan.analyse.network.torch import count_torch_weights
from anygpu.plan.hardware import models

_HF_CONFIG = re.compile(r"^([A-Z]\w*?)Config$")


def count_parameters(code: Code, name: CodeFinding[str] | None) -> CodeFinding[int] | None:
    """Return the number of parameters; None if unknown.

    The first of these sources that has the number is used: a network class in the code, the table of
    published models, values of the configuration, layers in the code, the model's name.
    """
    for reader in (
        _count_built,
        _from_table,
        _from_depth_and_width,
        _from_hf_config,
        _from_layers,
        _from_name,
    ):
        finding = reader(code, name)
        if finding is not None and 0 < finding.value <= MAX_WEIGHTS:
            return finding
    return None


def _count_built(code: Code, name: CodeFinding[str] | None) -> CodeFinding[int] | None:
    """Count the weights of the network class in the code that is trained.

    This count is used even if the class has the name of a published model.
    """
    own = layer_sizes.network_classes(code)
    made = count_torch_weights(code, own, name.value) if name is not None and name.value in own else None
    made = made or (count_keras_weights(code) if name is not None and name.confidence <= LIKELY else None)
    shapes = (
        [models.find_model(part.value) for part in published_parts(code, name.value)]
        if name is not None
        else []
    )
    inside = sum(shape.parameters for shape in shapes if shape is not None)
    if name is None or (made is None and not inside):
        return None
    total, file, line = inside, name.file, name.line
    if made is not None:
        total, file, line = inside + made.weights, made.file, made.line
    return CodeFinding(
        value=total,
        file=file,
        line=line,
        confidence=GUESS,
        because="counted from the network class in the code",
    )


def _from_table(code: Code, name: CodeFinding[str] | None) -> CodeFinding[int] | None:
    shape = models.find_model(name.value) if name is not None else None
    if name is None or shape is None:
        return None
    return CodeFinding(
        value=shape.parameters,
        file=name.file,
        line=name.line,
        confidence=name.confidence,
        because="known size of the published model",
    )


def _from_name(code: Code, name: CodeFinding[str] | None) -> CodeFinding[int] | None:
    count = models.parameters_in_name(name.value) if name is not None else None
    if name is None or count is None:
        return None
    return CodeFinding(
        value=count,
        file=name.file,
        line=name.line,
        confidence=GUESS,
        because="the model's name contains the size",
    )


_LAYERS = ("n_layer", "n_layers", "num_layers", "num_hidden_layers", "depth", "layers")
_WIDTH = ("n_embd", "d_model", "hidden_size", "embed_dim", "dim", "n_embed", "model_dim", "emb_dim")
_VOCAB = ("vocab_size", "n_vocab", "vocab")
_BLOCK = ("block_size", "n_positions", "max_seq_len", "context_length", "seq_len", "max_position_embeddings")


def _from_depth_and_width(code: Code, name: CodeFinding[str] | None) -> CodeFinding[int] | None:
    """Estimate the parameters of a transformer: 12 times the squared width per layer, plus the embeddings."""
    depth, width = code.settings.find(*_LAYERS), code.settings.find(*_WIDTH)
    counts = [v.value if v is not None else None for v in (depth, width)]
    if (
        depth is None
        or not all(isinstance(c, int) and c > 0 for c in counts)
        or not _is_transformer(code, name)
    ):
        return None
    layer_count, hidden = (c for c in counts if isinstance(c, int))
    block = code.settings.find(*_BLOCK)
    words = _vocabulary_size(code)
    candidates = block.value if block is not None and isinstance(block.value, int) else 0
    total = layer_count * (12 * hidden * hidden + 13 * hidden) + (words + candidates + 2) * hidden
    sure = LIKELY if words else GUESS
    return CodeFinding(
        value=total,
        file=depth.file,
        line=depth.line,
        confidence=sure,
        because="estimated from depth and width",
    )


def _vocabulary_size(code: Code) -> int:
    """Return the vocabulary size from a setting or from the embedding layer; 0 if unknown.

    The size of the embedding layer is doubled if the output layer has weights of its own.
    """
    setting = code.settings.find(*_VOCAB)
    if setting is not None and isinstance(setting.value, int):
        return setting.value
    for call in code.facts.calls_of("Embed", "Embedding"):
        size = code.settings.evaluate_number(call.argument("vocab_size", "num_embeddings", position=0))
        if size is not None and isinstance(size.value, int):
            outputs = [
                code.settings.evaluate_number(a)
                for c in code.facts.calls_of("Linear", "Dense")
                for a in c.node.args
            ]
            untied = any(o is not None and o.value == size.value for o in outputs)
            return size.value * (2 if untied else 1)
    return 0


def _is_transformer(code: Code, name: CodeFinding[str] | None) -> bool:
    text = " ".join(source.text for source in code.facts.sources)
    has_attention = re.search(r"(?i)attention|attn|transformer|gpt", text) is not None
    return has_attention and re.search(r"(?i)lstm|gru\b", name.value if name else "") is None


def _from_hf_config(code: Code, name: CodeFinding[str] | None) -> CodeFinding[int] | None:
    """Return the parameters of a default configuration: `GPT2Config()` without arguments means GPT-2."""
    for call in code.facts.calls:
        match = _HF_CONFIG.match(call.short_name)
        shape = models.find_model(match[1]) or models.find_model(match[1] + "base") if match else None
        if shape is not None and not call.node.keywords:
            return CodeFinding(value=shape.parameters, file=call.file, line=call.line, confidence=GUESS)
    return None


def _from_layers(code: Code, name: CodeFinding[str] | None) -> CodeFinding[int] | None:
    count, line, file = layer_sizes.count_layer_weights(code, name.value if name is not None else "")
    if not count:
        return None
    return CodeFinding(
        value=count, file=file, line=line, confidence=GUESS, because="counted from the layers in the code"
    )
