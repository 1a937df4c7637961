"""Every command the documents show runs, and prints what they say."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import click
import pytest

from anygpu.cli import exits
from anygpu.cli.catalogue import COMMANDS, load

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "docs" / "cli.md"]
BIN = Path(sys.executable).parent
ANYTHING = "…"
_BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
_EXIT = re.compile(r"\s+# exit (\d+)$")


@dataclass
class Example:
    """A command, its exit code, and lines it is said to print (`…` stands for anything)."""

    command: str
    line: int
    exit_code: int = 0
    says: list[str] = field(default_factory=list)


def examples(path: Path) -> Iterator[Example]:
    text = path.read_text(encoding="utf-8")
    for block in _BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1)) + 1
        yield from _examples(block[1], first)


def _examples(block: str, first_line: int) -> Iterator[Example]:
    found: Example | None = None
    for number, text in enumerate(block.splitlines(), first_line):
        if text.startswith("$ "):
            if found is not None:
                yield found
            code = _EXIT.search(text)
            found = Example(_EXIT.sub("", text[2:]), number, int(code[1]) if code else 0)
        elif found is not None and text.strip():
            found.says.append(text)
    if found is not None:
        yield found


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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_command_in_the_document_runs_and_prints_what_it_says(
    document: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    project = tmp_path / "plain"
    shutil.copytree(ROOT / "examples" / "plain", project)
    shown = [example for example in examples(document) if not example.command.startswith("make ")]
    for example in shown:
        done = run(example, project, environment)
        where = f"{document.name}:{example.line}: {example.command}"
        assert done.returncode == example.exit_code, f"{where} ended with {done.returncode}:\n{done.stdout}"
        lost = missing(example.says, done.stdout)
        assert lost is None, f"{where} did not print {lost!r} but:\n{done.stdout}"
    assert shown or document.name == "README.md"


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


@pytest.mark.parametrize("entry", COMMANDS, ids=lambda entry: entry.name)
def test_every_command_is_documented(entry: click.Command) -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    found = load(entry.name)
    assert found is not None
    for path in paths(found, entry.name):
        assert f"anygpu {path}" in text, f"docs/cli.md says nothing of `anygpu {path}`"


def test_every_exit_code_is_documented() -> None:
    text = (ROOT / "docs" / "cli.md").read_text()
    codes = [value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)]
    assert [code for code in codes if f"| {code} |" not in text] == []
