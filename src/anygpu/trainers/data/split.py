"""Split a dataset by a hash of each image, so that new images do not move the others to another split.

A class with two or more images occurs in train and in val. Identical images are always in the same split.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

from anygpu.trainers.data.dataset import TRAIN, VAL, Item

Key = TypeVar("Key", bound=Hashable)


def split_items(items: Sequence[Item], *, val_fraction: float, seed: int) -> dict[str, tuple[Item, ...]]:
    shown: dict[str, frozenset[int]] = defaultdict(frozenset)
    for item in items:
        shown[item.sha256 or item.id] |= item.classes
    chosen = choose({key: tuple(classes) for key, classes in shown.items()}, val_fraction, seed)
    parts: dict[str, list[Item]] = {TRAIN: [], VAL: []}
    for item in items:
        parts[VAL if (item.sha256 or item.id) in chosen else TRAIN].append(item)
    return {name: tuple(part) for name, part in parts.items()}


def choose(samples: Mapping[str, Iterable[Hashable]], val_fraction: float, seed: int) -> frozenset[str]:
    """Choose samples for validation, and return their keys. `samples` maps the key of each sample to its classes.

    Each sample gets a pseudo-random number that depends only on its key and the seed; samples below `val_fraction` are
    chosen. If a class would then be missing in validation, its sample with the lowest number moves there; if it would
    be missing in training, its sample with the highest number.
    """
    draws = {key: draw(key, seed) for key in samples}
    chosen = {key for key, drawn in draws.items() if drawn < val_fraction}
    pinned: set[str] = set()
    for members in _rarest_first(samples):
        ordered = sorted(members, key=lambda key: (draws[key], key))
        if len(ordered) > 1:
            _present_in_both(ordered, chosen, pinned)
    return frozenset(chosen)


def draw(key: str, seed: int) -> float:
    """Return a pseudo-random number from 0 to 1 that depends only on key and seed."""
    digest = hashlib.sha256(f"{seed}:{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def _rarest_first(samples: Mapping[str, Iterable[Hashable]]) -> list[list[str]]:
    """Return lists of samples: one list per class, rarest class first, then one with all samples.

    With the last list, no split stays empty.
    """
    members: dict[Hashable, list[str]] = defaultdict(list)
    for key, classes in samples.items():
        for each in classes:
            members[each].append(key)
    by_rarity = sorted(members.items(), key=lambda pair: (len(pair[1]), str(pair[0])))
    return [*(keys for _, keys in by_rarity), list(samples)]


def _present_in_both(ordered: Sequence[str], chosen: set[str], pinned: set[str]) -> None:
    inside = [key for key in ordered if key in chosen]
    free = [key for key in ordered if key not in pinned]
    if not inside and free:
        chosen.add(free[0])
        pinned.add(free[0])
    elif len(inside) == len(ordered) and free:
        chosen.discard(free[-1])
        pinned.add(free[-1])
