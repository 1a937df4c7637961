"""Find the name that a person probably meant. Standard library only, so that every package can import it."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def closest_name(word: str, names: Iterable[str]) -> str:
    """Return the name most similar to `word`, or an empty string if none is similar."""
    from difflib import get_close_matches  # not needed until something is wrong

    candidates, typed = list(names), word[:100].lower()
    completions = [name for name in candidates if len(typed) > 2 and name.startswith(typed)]
    matches = completions or get_close_matches(typed, candidates, n=1)
    return matches[0] if matches else ""


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """Return "did you mean 'gpu'?", or an empty string if no name is similar."""
    name = closest_name(word, names)
    return f"did you mean {name!r}?" if name else ""


def suggestion(word: str, names: Iterable[str], otherwise: str = "") -> str:
    """Return the sentence "Did you mean 'gpu'?", or `otherwise` if no name is similar."""
    name = closest_name(word, names)
    return f"Did you mean {name!r}?" if name else otherwise
