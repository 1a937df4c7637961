"""The name that was probably meant."""

from collections.abc import Iterable


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """ "did you mean 'gpu'?", or nothing when no name is near."""
    from difflib import get_close_matches  # not needed until something is wrong

    known, typed = list(names), word[:100].lower()
    begins = [name for name in known if len(typed) > 2 and name.startswith(typed)]
    near = begins or get_close_matches(typed, known, n=1)
    return f"did you mean {near[0]!r}?" if near else ""
