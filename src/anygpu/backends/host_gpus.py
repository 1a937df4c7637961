"""Group the GPUs of a machine by model, so that a machine with several models makes one offer for each.

The first model keeps the name of the machine as the name of its offer. The offers of the others have the model in
their name: `lab` and `lab/RTX-4090`. So the offer of a machine with one model has the name of the machine.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

SEPARATOR = "/"
VENDOR_WORDS = ("NVIDIA ", "GeForce ", "Tesla ")  # parts of a model's name that distinguish nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuModelGroup:
    """The GPUs of one model in a machine. `kind` is empty for a machine without GPUs."""

    offer_name: str
    kind: str
    cards: Sequence[Mapping[str, Any]]
    is_only: bool  # the machine has no other model

    @property
    def memory_gib(self) -> float:
        return min((card["memory_gib"] for card in self.cards), default=0)

    @property
    def driver(self) -> str:
        return str(self.cards[0].get("driver", "")) if self.cards else ""

    @property
    def uuids(self) -> list[str]:
        return [card["uuid"] for card in self.cards]

    @property
    def gpu_noun(self) -> str:
        """What a GPU of this group is called in messages; it names the model if the machine has several."""
        return "GPU" if self.is_only else f"{_short_name(self.kind)} GPU"


def group_gpus(machine: str, cards: Sequence[Mapping[str, Any]]) -> list[GpuModelGroup]:
    """Return the GPUs by model, in the order of the machine's list. Without GPUs, return one empty group."""
    by_kind: dict[str, list[Mapping[str, Any]]] = {}
    for card in cards:
        by_kind.setdefault(card["kind"], []).append(card)
    names = _offer_names(machine, by_kind)
    return [
        GpuModelGroup(offer_name=name, kind=kind, cards=same, is_only=len(by_kind) < 2)
        for name, (kind, same) in zip(names, by_kind.items() or [("", [])], strict=True)
    ]


def machine_of_offer(offer_name: str) -> str:
    """Return the name of the machine that makes an offer."""
    return offer_name.partition(SEPARATOR)[0]


def cards_of_kind(cards: Iterable[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    """Return the GPUs of a model; all GPUs if `kind` is empty."""
    return [card for card in cards if not kind or card["kind"] == kind]


def _offer_names(machine: str, kinds: Iterable[str]) -> list[str]:
    others = [_short_name(kind).replace(" ", "-") for kind in [*kinds][1:]]
    return [machine, *(f"{machine}{SEPARATOR}{model}" for model in others)]


def _short_name(kind: str) -> str:
    for word in VENDOR_WORDS:
        kind = kind.removeprefix(word)
    return kind
