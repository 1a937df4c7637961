"""Make text from jobs safe to print: a terminal obeys control characters, wherever they come from."""

import re

COLOUR = r"\x1b\[[0-9;:]{0,32}m"  # SGR: the only sequence that changes nothing but the look of text
# Control characters except tab and newline, line separators, and characters that change the direction of text.
UNSAFE = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]"

_UNSAFE = re.compile(UNSAFE)
_COLOUR_OR_UNSAFE = re.compile(f"({COLOUR})|{UNSAFE}")


def printable(text: str, *, colours: bool = False) -> str:
    """Return a text in which control characters are visible, such as `\\x1b`. Tabs and newlines stay.

    With `colours`, the sequences that set colours stay too.
    """
    if text.isascii() and text.isprintable():
        return text
    if colours:
        return _COLOUR_OR_UNSAFE.sub(lambda match: match[1] or escape_character(match[0]), text)
    return _UNSAFE.sub(lambda match: escape_character(match[0]), text)


def printable_line(text: str, *, colours: bool = False) -> str:
    """Return a text like `printable`, on one line: tabs become spaces, and newlines are visible."""
    return printable(text, colours=colours).replace("\t", " ").replace("\n", "\\n")


def printable_json(document: str) -> str:
    """Return a JSON document in which such characters are escaped. It has the same meaning."""
    if document.isascii() and "\x7f" not in document:
        return document  # JSON escapes the other control characters of ASCII itself
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", document)


def escape_character(character: str) -> str:
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
