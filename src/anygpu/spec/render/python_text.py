"""Write a spec mapping as Python code that submits the job with `anygpu.Platform`."""

from collections.abc import Mapping, Sequence
from typing import Any

LINE_WIDTH = 88
_ARGUMENT_NAMES = {"requirements": "packages"}  # `Platform.submit` has another parameter of this name


def python_code(mapping: Mapping[str, Any]) -> str:
    """Return the code. Texts become literals in which every character that is not printable is escaped."""
    given = {key: value for key, value in mapping.items() if value is not None}
    arguments = [
        f"    {_ARGUMENT_NAMES.get(key, key)}={_literal(value, 4)},\n" for key, value in given.items()
    ]
    return f"from anygpu import Platform\n\njob = Platform().submit(\n{''.join(arguments)})\nprint(job.id)\n"


def _literal(value: Any, indent: int) -> str:
    """Return a literal, on one line if it is short."""
    line = repr(value)
    if isinstance(value, str):
        return _text_literal(value)
    if len(line) + indent <= LINE_WIDTH or not value:
        return line
    inner, outer = " " * (indent + 4), " " * indent
    if isinstance(value, Mapping):
        items = [f"{inner}{key!r}: {_literal(each, indent + 4)},\n" for key, each in value.items()]
        return f"{{\n{''.join(items)}{outer}}}"
    if isinstance(value, Sequence):
        return f"[\n{''.join(f'{inner}{_literal(each, indent + 4)},{chr(10)}' for each in value)}{outer}]"
    return line


def _text_literal(text: str) -> str:
    """Return a text of several lines in triple quotation marks, if nothing in it needs an escape."""
    plain = all(character.isprintable() or character == "\n" for character in text)
    if "\n" not in text or not plain or "\\" in text or '"""' in text or text.endswith('"'):
        return repr(text)
    return f'"""{text}"""' if not text.startswith('"') else repr(text)
