"""Text from jobs that is safe to print."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from anygpu.printable import printable, printable_json, printable_line

ATTACKS = [
    "\x1b[2J",
    "\x1b]0;title\x07",
    "\x1b]8;;http://x\x1b\\link",
    "\x9b31m",
    "\u202egnp.exe",
    "\u2066x\u2069",
    "a\rb",
    "\x08\x08",
    "\x7f",
    "\x85",
    "\u2028",
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_control_characters_become_visible(attack: str) -> None:
    shown = printable(f"name {attack} end")
    assert "\\" in shown
    assert all(character.isprintable() for character in shown)


@given(st.text())
def test_any_text_becomes_printable_and_stays_so(text: str) -> None:
    once = printable_line(text)
    assert not any(ord(character) < 32 or 127 <= ord(character) < 160 for character in once)
    assert printable_line(once) == once


def test_ordinary_text_is_not_changed() -> None:
    assert printable("Größe 5 µs → 🚀\n\tשלום") == "Größe 5 µs → 🚀\n\tשלום"


def test_colours_stay_if_they_are_wanted() -> None:
    assert printable("\x1b[31mred\x1b[0m \x1b[2J", colours=True) == "\x1b[31mred\x1b[0m \\x1b[2J"
    assert printable("\x1b[31mred\x1b[0m") == "\\x1b[31mred\\x1b[0m"


@given(
    st.recursive(st.text() | st.integers(), lambda value: st.lists(value) | st.dictionaries(st.text(), value))
)
def test_json_keeps_its_meaning(value: object) -> None:
    shown = printable_json(json.dumps(value, ensure_ascii=False))
    assert json.loads(shown) == value
    assert "\x9b" not in shown
    assert "\u202e" not in shown
