"""The command that adds an extra depends on how anygpu was installed."""

import sys

import pytest

from anygpu.installation import Installation, with_command_name

CLONE = "file:///home/me/any%20gpu"


@pytest.mark.parametrize(
    ("found", "command"),
    [
        (Installation("pip", "/v/bin/python"), "/v/bin/python -m pip install 'anygpu[aws]'"),
        (
            Installation("pip", "/v/bin/python", CLONE),
            "/v/bin/python -m pip install 'anygpu[aws] @ file:///home/me/any%20gpu'",
        ),
        (
            Installation("pip", "/v/bin/python", CLONE, editable=True),
            "/v/bin/python -m pip install -e '/home/me/any gpu[aws]'",
        ),
        (
            Installation("uv pip", "/v/bin/python"),
            "uv pip install --python /v/bin/python 'anygpu[aws]'",
        ),
        (
            Installation("uv tool", "/t/bin/python", CLONE),
            "uv tool install --force 'anygpu[aws] @ file:///home/me/any%20gpu'",
        ),
        (Installation("pipx", "/x/bin/python"), "pipx install --force 'anygpu[aws]'"),
    ],
)
def test_the_command_is_the_one_of_the_installer(found: Installation, command: str) -> None:
    assert found.extra_command("aws") == command


def test_several_extras_are_one_command() -> None:
    assert Installation("pipx", "p").extra_command("aws", "yolo").endswith("'anygpu[aws,yolo]'")


def test_hints_use_the_command_that_the_user_typed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/my venv/bin/python")
    monkeypatch.setattr(sys, "argv", ["/usr/bin/anygpu"])
    assert with_command_name("Run `anygpu up` first.") == "Run `anygpu up` first."
    monkeypatch.setattr(sys, "argv", ["/lib/anygpu/__main__.py"])
    assert with_command_name("Run `anygpu up` first.") == "Run `'/my venv/bin/python' -m anygpu up` first."
    assert with_command_name("anygpu is a program") == "anygpu is a program"
