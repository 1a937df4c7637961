"""Signed links, made whole. Stores that cannot sign give links of ours without a host."""

from typing import Any


def absolute(url: str, base: str) -> str:
    return f"{base.rstrip('/')}{url}" if url.startswith("/") else url


def with_absolute_urls(answer: Any, base: str) -> Any:
    """The answer with every `url` made whole, at whatever depth."""
    if isinstance(answer, dict):
        return {key: _whole(key, value, base) for key, value in answer.items()}
    if isinstance(answer, list | tuple):
        return [with_absolute_urls(each, base) for each in answer]
    return answer


def _whole(key: str, value: Any, base: str) -> Any:
    if key == "url" and isinstance(value, str):
        return absolute(value, base)
    return with_absolute_urls(value, base)
