"""One key, without Enter."""

import os
import sys


def pressed(wanted: str, question: str) -> str:
    """Ask, and wait for one of the keys. The terminal listens before it asks, so that no quick key is lost."""
    try:
        import termios
        import tty
    except ImportError:  # Windows
        return _by_click(wanted, question)
    terminal = sys.stdin.fileno()
    before = termios.tcgetattr(terminal)
    try:
        tty.setcbreak(terminal, termios.TCSADRAIN)
        print(question, end="", file=sys.stderr, flush=True)
        while (key := os.read(terminal, 1).decode(errors="replace").lower()) not in list(wanted):
            if not key:
                raise EOFError
        return key
    finally:
        termios.tcsetattr(terminal, termios.TCSADRAIN, before)


def _by_click(wanted: str, question: str) -> str:
    import click

    print(question, end="", file=sys.stderr, flush=True)
    while (key := click.getchar().lower()) not in list(wanted):
        pass
    return key
