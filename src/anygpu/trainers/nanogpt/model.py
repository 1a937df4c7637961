"""A small GPT: embeddings, transformer blocks, and a head that predicts the next token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional


@dataclass(frozen=True, kw_only=True)
class GptShape:
    """Dimensions of a GPT. `block_size` is its context length in tokens."""

    tokens: int
    block_size: int
    layers: int
    heads: int
    width: int
    dropout: float


class Attention(nn.Module):  # type: ignore[misc]
    """Causal multi-head self-attention."""

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.heads, self.dropout = shape.heads, shape.dropout
        self.asked = nn.Linear(shape.width, 3 * shape.width)  # query, key and value projections
        self.told = nn.Linear(shape.width, shape.width)  # output projection

    def forward(self, x: Any) -> Any:
        batch, time, width = x.shape
        parts = self.asked(x).view(batch, time, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        seen = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, dropout_p=self.dropout if self.training else 0.0
        )
        return self.told(seen.transpose(1, 2).reshape(batch, time, width))


class Block(nn.Module):  # type: ignore[misc]
    """Transformer block: attention and an MLP, each with a residual connection."""

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.before_attention, self.attention = nn.LayerNorm(shape.width), Attention(shape)
        self.before_thought = nn.LayerNorm(shape.width)
        self.thought = nn.Sequential(
            nn.Linear(shape.width, 4 * shape.width), nn.GELU(), nn.Linear(4 * shape.width, shape.width)
        )
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: Any) -> Any:
        x = x + self.dropout(self.attention(self.before_attention(x)))
        return x + self.dropout(self.thought(self.before_thought(x)))


class Gpt(nn.Module):  # type: ignore[misc]
    """Language model: takes tokens [batch, time] and returns next-token logits [batch, time, tokens]."""

    def __init__(self, shape: GptShape) -> None:
        super().__init__()
        self.shape = shape
        self.token = nn.Embedding(shape.tokens, shape.width)
        self.position = nn.Embedding(shape.block_size, shape.width)
        self.dropout = nn.Dropout(shape.dropout)
        self.blocks = nn.ModuleList(Block(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.tokens, bias=False)
        self.apply(_start)
        for block in self.blocks:  # residual branches start with smaller weights
            for summand in (block.attention.told, block.thought[-1]):
                nn.init.normal_(summand.weight, std=0.02 / (2 * shape.layers) ** 0.5)
        self.head.weight = self.token.weight  # tied input and output embeddings

    def forward(self, tokens: Any) -> Any:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.token(tokens) + self.position(places))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))

    def loss(self, tokens: Any, following: Any) -> Any:
        return functional.cross_entropy(self(tokens).flatten(0, 1), following.flatten())

    @torch.no_grad()  # type: ignore[untyped-decorator]
    def write(self, tokens: Any, count: int, *, chance: Any, heat: float = 0.8, choices: int = 40) -> Any:
        """Generate `count` tokens after `tokens`, and return all of them.

        Each token is sampled with the random generator `chance` from the `choices` most likely tokens, at temperature
        `heat`.
        """
        for _ in range(count):
            logits = self(tokens[:, -self.shape.block_size :])[:, -1].cpu() / heat
            least = logits.topk(min(choices, logits.shape[-1])).values[:, -1:]
            likely = logits.masked_fill(logits < least, -torch.inf).softmax(-1)
            tokens = torch.cat([tokens, torch.multinomial(likely, 1, generator=chance).to(tokens.device)], 1)
        return tokens


def with_decay(model: Gpt, decay: float) -> list[dict[str, Any]]:
    """Return the parameter groups for the optimiser: matrices with weight decay, biases and norms without."""
    parameters = list(model.parameters())
    return [
        {"params": [each for each in parameters if each.dim() >= 2], "weight_decay": decay},
        {"params": [each for each in parameters if each.dim() < 2], "weight_decay": 0.0},
    ]


def _start(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
