"""Colours: on a terminal, and only if nobody said NO_COLOR."""

import os
import sys
from typing import TextIO

CODES = {"red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36, "dim": 2, "bold": 1}
BY_STATUS = {
    "completed": "green",
    "running": "cyan",
    "queued": "yellow",
    "failed": "red",
    "cancelled": "magenta",
    "ok": "green",
    "warn": "yellow",
    "fail": "red",
}


def wanted(stream: TextIO | None = None) -> bool:
    """NO_COLOR beats everything; FORCE_COLOR speaks for pipes that end in a terminal."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return (stream or sys.stdout).isatty() and os.environ.get("TERM") != "dumb"


def paint(text: str, colour: str, *, on: bool) -> str:
    return f"\x1b[{CODES[colour]}m{text}\x1b[0m" if on and text and colour else text


def status(word: str, *, on: bool) -> str:
    return paint(word, BY_STATUS.get(word.strip(), "dim"), on=on)
