"""Every command the documents show runs, and prints what they say."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest
from tests.docs.pages import ROOT, Example, examples
from tests.docs.places import PLACES

from anygpu.cli import exits
from anygpu.cli.root import COMMANDS, load_command

BIN = Path(sys.executable).parent
ANYTHING = "…"


def run(
    example: Example, directory: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", example.command],
        cwd=directory,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=60,
        check=False,
    )


def missing(says: list[str], output: str) -> str | None:
    """The first line the document shows that the output does not, in order."""
    printed = iter(output.splitlines())
    for line in says:
        pattern = re.compile(".*".join(re.escape(_plain(part)) for part in line.split(ANYTHING)))
        if line.strip() != ANYTHING and not any(pattern.match(_plain(each)) for each in printed):
            return line
    return None


def _plain(text: str) -> str:
    return " ".join(text.split(" ")) if not text.strip() else re.sub(r" +", " ", text)


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    place = tmp_path_factory.mktemp("docs")
    environ = {key: value for key, value in os.environ.items() if not key.startswith("ANYGPU_")}
    environ |= {
        "PATH": f"{BIN}:{environ['PATH']}",
        "HOME": str(place),
        "ANYGPU_STATE": str(place / "state"),
        "ANYGPU_CONFIG": str(place / "config" / "config.toml"),
        "ANYGPU_SERVER__PORT": "0",
        "COLUMNS": "160",
    }
    yield environ
    run(Example("anygpu down", 0), place, environ)


@pytest.mark.parametrize("page", PLACES)
def test_every_command_in_the_document_runs_and_prints_what_it_says(
    page: str, environment: dict[str, str], tmp_path: Path
) -> None:
    project = PLACES[page](tmp_path)
    shown = [example for example in examples(ROOT / page) if not example.command.startswith("make ")]
    for example in shown:
        done = run(example, project, environment)
        where = f"{page}:{example.line}: {example.command}"
        assert done.returncode == example.exit_code, f"{where} ended with {done.returncode}:\n{done.stdout}"
        lost = missing(example.says, done.stdout)
        assert lost is None, f"{where} did not print {lost!r} but:\n{done.stdout}"
    assert shown


def test_every_make_target_the_readme_shows_is_there() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    shown = [
        example.command.split()[1]
        for example in examples(ROOT / "README.md")
        if example.command.startswith("make ")
    ]
    assert {"demo", "test"} <= set(shown) <= set(targets)


def paths(command: click.Command, name: str) -> list[str]:
    if not isinstance(command, click.Group):
        return [name]
    return [path for sub, each in command.commands.items() for path in paths(each, f"{name} {sub}")]


@pytest.mark.parametrize("entry", COMMANDS.values(), ids=lambda entry: entry.name)
def test_every_command_is_documented(entry: click.Command) -> None:
    text = (ROOT / "docs" / "reference" / "cli.md").read_text()
    assert entry.name is not None
    found = load_command(entry.name)
    assert found is not None
    for path in paths(found, entry.name):
        assert f"anygpu {path}" in text, f"docs/reference/cli.md says nothing of `anygpu {path}`"


def test_every_exit_code_is_documented() -> None:
    text = (ROOT / "docs" / "reference" / "cli.md").read_text()
    codes = [value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)]
    assert [code for code in codes if f"| {code} |" not in text] == []
