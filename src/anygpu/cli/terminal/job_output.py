"""Make the output of jobs safe to print. Colours and progress bars still work; nothing else moves the cursor."""

import codecs
import re

from anygpu.printable import COLOUR, escape_character

# On a terminal these are removed: sequences other than colours, and characters that print nothing.
_TERMINAL = re.compile(
    f"(?P<colour>{COLOUR})"
    r"|\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)"
    r"|\x1b[ -/]{0,8}[0-~]?"
    r"|(?P<line_end>\r+\n)|(?P<rewrite>\r+)"
    r"|[\x00\x07\x08]"
    r"|(?P<other>[\x01-\x06\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069])"
)
# A pipe or a file gets all other bytes as they are.
_PIPE = re.compile(
    f"(?P<colour>{COLOUR})"
    r"|\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)"
    r"|\x1b[ -/]{0,8}[0-~]?"
    r"|(?P<other>[\x7f-\x9f\udc80-\udc9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069])"
)
# The beginning of a sequence at the end of the text; the rest of it may come with the next bytes.
_INCOMPLETE = re.compile(
    r"(?:\x1b(?:\[[0-?]{0,64}[ -/]{0,8}|[\]PX^_][^\x07\x1b\n]{0,4096}\x1b?|[ -/]{0,8})?)\Z"
)
_RETURNS = re.compile(r"\r+\Z")  # a newline may follow
RESET = "\x1b[0m"


class OutputFilter:
    """Removes terminal control sequences from the output of a job, which arrives in pieces.

    `colours`: keep the sequences that set colours. `terminal`: the output goes to a terminal, so a carriage
    return erases the line that it rewrites; otherwise a mix of both texts could be shown.
    """

    def __init__(self, *, colours: bool, terminal: bool) -> None:
        self._colours = colours
        self._terminal = terminal
        self._errors = "replace" if terminal else "surrogateescape"
        self._decoder = codecs.getincrementaldecoder("utf-8")(self._errors)
        self._held = ""
        self._is_coloured = False

    def feed(self, data: bytes) -> bytes:
        text = self._held + self._decoder.decode(data)
        incomplete = _INCOMPLETE.search(text) or (_RETURNS.search(text) if self._terminal else None)
        self._held = text[incomplete.start() :] if incomplete else ""
        return self._filter(text[: incomplete.start()] if incomplete else text)

    def close(self) -> bytes:
        """Return the rest of the output, and end its colours."""
        rest = self._filter(self._held.rstrip("\r") + self._decoder.decode(b"", final=True))
        self._held = ""
        return rest + (RESET.encode() if self._is_coloured else b"")

    def _filter(self, text: str) -> bytes:
        pattern = _TERMINAL if self._terminal else _PIPE
        return pattern.sub(self._replace, text).encode("utf-8", self._errors)

    def _replace(self, match: "re.Match[str]") -> str:
        kind = match.lastgroup
        if kind == "colour":
            self._is_coloured = self._colours
            return match[0] if self._colours else ""
        if kind == "line_end":
            return "\n"
        if kind == "rewrite":
            return "\r\x1b[K"
        if kind == "other":
            code = ord(match[0])
            return escape_character(chr(code & 0xFF) if 0xDC80 <= code <= 0xDC9F else match[0])
        return ""


class UnchangedOutput:
    """Passes the output of a job on as it is, for `--raw`."""

    def feed(self, data: bytes) -> bytes:
        return data

    def close(self) -> bytes:
        return b""
