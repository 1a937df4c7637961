import subprocess
import sys

import click
import pytest

from anygpu.cli.root import COMMANDS, SECTIONS, load_command

LEAVES = list(COMMANDS)
HEAVY = ("pydantic", "fastapi", "sqlalchemy", "rich", "asyncio", "httpx", "websockets", "yaml", "obstore")


def leaves(command: click.Command, path: str) -> list[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        return [leaf for name, each in command.commands.items() for leaf in leaves(each, f"{path} {name}")]
    return [(path, command)]


@pytest.mark.parametrize("name", LEAVES)
def test_every_command_loads_and_has_json_output(name: str) -> None:
    found = load_command(name)
    assert found is not None
    for path, command in leaves(found, name):
        options = [option for each in command.params for option in each.opts]
        assert "--json" in options, f"{path} has no --json"
        assert command.help, f"{path} says nothing about itself"


def test_every_command_is_listed_once_in_the_help() -> None:
    listed = [command.name for commands in SECTIONS.values() for command in commands]
    assert sorted(listed) == sorted(set(LEAVES))


def test_an_unknown_command_is_not_imported() -> None:
    assert load_command("exits") is None


@pytest.mark.parametrize(
    "module",
    [
        "anygpu.cli.root",
        "anygpu.cli.jobs.run",
        "anygpu.cli.jobs.follow",
        "anygpu.sdk.platform",
        "anygpu.sdk.upload.submission",
    ],
)
def test_heavy_packages_are_imported_only_when_needed(module: str) -> None:
    code = f"import sys, {module}; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
