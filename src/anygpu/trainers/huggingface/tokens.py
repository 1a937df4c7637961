"""A tokenizer: the model's own, one from a folder, or one made from the texts."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from anygpu.trainers.errors import BadConfig

PAD, UNKNOWN, END = "<pad>", "<unk>", "<end>"
SPECIAL = (PAD, UNKNOWN, END)
CHARACTERS, PAIRS = "characters", "bpe"


def made(kind: str, texts: Iterable[str], vocab_size: int) -> Any:
    """`characters`: one token each; `bpe`: the pieces of words that occur most."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = _characters(texts) if kind == CHARACTERS else _pairs(texts, vocab_size)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token=PAD, unk_token=UNKNOWN, eos_token=END, bos_token=END
    )


def kept(place: str | Path) -> Any:
    """One that was saved: a local folder, or a name of the hub's."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(place))
    except (OSError, ValueError) as error:
        raise BadConfig(f"tokenizer: {place} has none: {str(error).splitlines()[0]}") from None
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
