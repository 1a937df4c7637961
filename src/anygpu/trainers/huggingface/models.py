"""Create models and tokenizers: new, or pretrained from the Hugging Face hub or a folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from anygpu.suggest import did_you_mean
from anygpu.trainers.config import TrainingConfig
from anygpu.trainers.errors import BadConfig
from anygpu.trainers.huggingface.settings import IMAGE, LANGUAGE, TEXT

USUAL = {TEXT: "distilbert", LANGUAGE: "gpt2", IMAGE: "vit"}
CLASSES = {
    TEXT: "AutoModelForSequenceClassification",
    LANGUAGE: "AutoModelForCausalLM",
    IMAGE: "AutoModelForImageClassification",
}
# Default sizes, small enough to train on a CPU. `model_config` overrides them.
SMALL: Mapping[str, Mapping[str, Any]] = {
    "distilbert": {"dim": 64, "hidden_dim": 128, "n_layers": 2, "n_heads": 4},
    "bert": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    },
    "gpt2": {"n_embd": 64, "n_layer": 2, "n_head": 4},
    "llama": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
    },
    "vit": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4},
    "resnet": {"embedding_size": 16, "hidden_sizes": [16, 32], "depths": [1, 1], "layer_type": "basic"},
}


def start_from(config: TrainingConfig) -> str:
    """Return which pretrained model to start from (a folder or hub name); empty if training starts from scratch."""
    from transformers import CONFIG_MAPPING

    if config.weights:
        return config.weights
    is_architecture = not config.model or config.model in CONFIG_MAPPING
    return "" if is_architecture else config.model


def create(config: TrainingConfig, data_config: Mapping[str, Any], classes: Sequence[str]) -> Any:
    """Create the model, pretrained or new.

    `data_config`: the values of the model's config that depend on the dataset, such as the vocabulary size.
    """
    import transformers

    kind = getattr(transformers, CLASSES[config.task])
    labels = {"id2label": dict(enumerate(classes)), "label2id": {name: at for at, name in enumerate(classes)}}
    trained = start_from(config)
    if trained:
        return _load_pretrained(kind, trained, labels if classes else {})
    architecture = config.model or USUAL[config.task]
    given = {
        **SMALL.get(architecture, {}),
        **data_config,
        **config.option("model_config", {}),
        **(labels if classes else {}),
    }
    try:
        made = transformers.AutoConfig.for_model(architecture, **given)
        return kind.from_config(made)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadConfig(
            f"model: {architecture!r} cannot be used for the task {config.task}; set another model: "
            f"{_first(error)}"
        ) from None


def _load_pretrained(kind: Any, name: str, labels: Mapping[str, Any]) -> Any:
    try:
        return kind.from_pretrained(name, ignore_mismatched_sizes=bool(labels), **labels)
    except (OSError, ValueError) as error:
        raise not_found(name, error) from None


def not_found(name: str, error: BaseException) -> BadConfig:
    return BadConfig(
        f"model: {name!r} is neither an architecture{_hint(name)}, nor the name of a pretrained model "
        f"that can be loaded ({_first(error)})"
    )


def _hint(name: str) -> str:
    from transformers import CONFIG_MAPPING

    hint = "" if Path(name).exists() else did_you_mean(name, CONFIG_MAPPING)
    return f" ({hint})" if hint else ""


def _first(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


PAD, UNKNOWN, END = "<pad>", "<unk>", "<end>"
SPECIAL = (PAD, UNKNOWN, END)
CHARACTERS, PAIRS = "characters", "bpe"


def train_tokenizer(kind: str, texts: Iterable[str], vocab_size: int) -> Any:
    """Train a tokenizer on texts.

    `kind`: `characters` makes one token per character, `bpe` uses byte-pair encoding.
    """
    from transformers import PreTrainedTokenizerFast

    tokenizer = _characters(texts) if kind == CHARACTERS else _pairs(texts, vocab_size)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, unk_token=UNKNOWN, eos_token=END, bos_token=END
    )


def load_tokenizer(place: str | Path) -> Any:
    """Load a tokenizer from a folder or the hub."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(place))
    except (OSError, ValueError) as error:
        raise BadConfig(
            f"tokenizer: no tokenizer can be loaded from {place}; set `tokenizer` to another name or folder: "
            f"{str(error).splitlines()[0]}"
        ) from None
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def _characters(texts: Iterable[str]) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    seen = sorted({character for text in texts for character in text})
    vocabulary = {token: at for at, token in enumerate((*SPECIAL, *seen))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def _pairs(texts: Iterable[str], vocab_size: int) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer
