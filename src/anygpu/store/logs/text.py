"""The text of a line as a reader sees it.

A carriage return starts the line again, so of a progress bar only the last state is shown. Colours and other
control sequences stay in the text: terminals and browsers handle them.
"""

import re

MAX_TEXT_BYTES = 8 * 1024

# Control sequences (colours, cursor movements), and operating system commands such as titles and links.
_ESCAPES = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]")
_OVERWRITTEN = re.compile(rb"(?m)^[^\n]*\r(?=[^\r\n]*[^\s])")


def shown_part(data: bytes) -> tuple[int, int]:
    """Return start and end of the part of a line that is shown: the last text after a carriage return."""
    end = len(data)
    while True:
        start = data.rfind(b"\r", 0, end) + 1
        if start == 0 or data[start:end].strip():
            return start, end
        end = start - 1


def shown_text(data: bytes) -> tuple[str, int | None]:
    """Return the text of a line, and the position in `data` where it was cut, or None if it is complete.

    Invalid UTF-8 is replaced.
    """
    start, end = shown_part(data)
    cut = start + MAX_TEXT_BYTES
    if end <= cut:
        return data[start:end].decode("utf-8", "replace"), None
    while cut > start + MAX_TEXT_BYTES - 4 and data[cut] & 0xC0 == 0x80:  # in the middle of a character
        cut -= 1
    return data[start:cut].decode("utf-8", "replace"), cut


def searchable(block: bytes) -> bytes:
    """Return the visible text of several lines, without control sequences and without overwritten text.

    It has as many lines as the block.
    """
    if b"\r" in block:
        block = _OVERWRITTEN.sub(b"", block)
    return _ESCAPES.sub(b"", block) if b"\x1b" in block else block
