"""What the pages show and the tests do not run is at least right: commands, options, job files, imports."""

import ast
import itertools
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from tests.docs.pages import ROOT, Example, blocks, examples, indented

from anygpu.cli.jobs.run import JOB_FILE_SUFFIXES, RunCommand
from anygpu.cli.root import load_command
from anygpu.spec import from_file, from_yaml
from anygpu.spec.flags import OPTIONS_AFTER_SCRIPT
from anygpu.trainers.__main__ import _parser

PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").glob("*/README.md")),
]
JOBS = sorted((ROOT / "examples").glob("*/job.yaml"))
_OURS = re.compile(r"^(?:.*\| )?anygpu (?P<words>.*)$")
_PLACEHOLDER = re.compile(r"…|\[|<")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def commands(page: Path) -> Iterator[Example]:
    yield from (each for each in examples(page) if each.exit_code != 2)
    yield from indented(page, "anygpu")


def mistake(words: list[str]) -> str:
    """What is wrong with the words after `anygpu`; empty when nothing is."""
    found: click.Command | None = load_command(words[0]) if words else None
    rest = words[1:]
    while isinstance(found, click.Group) and rest:
        found, rest = found.commands.get(rest[0]), rest[1:]
    if found is None or isinstance(found, click.Group):
        return "there is no such command"
    try:
        options, _, _ = found.make_parser(click.Context(found, **found.context_settings)).parse_args(rest)
    except click.UsageError as error:
        return error.format_message()
    target = options.get("target")
    if isinstance(found, RunCommand) and "--" not in rest and isinstance(target, list | tuple):
        return _misplaced(found, list(target))
    return ""


def _misplaced(command: click.Command, tail: list[str]) -> str:
    """Options of ours after the script are the script's: nobody who shows one there means that."""
    ours = {name for param in command.params for name in param.opts if name.startswith("--")}
    if not tail or tail[0].endswith(JOB_FILE_SUFFIXES):
        return ""
    lost = [word for word in tail[1:] if word in ours and word not in OPTIONS_AFTER_SCRIPT]
    return f"{lost[0]} comes after the script, which gets it" if lost else ""


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_shown_is_there_with_its_options(page: Path) -> None:
    wrong = []
    for example in commands(page):
        said = _OURS.match(example.command.split(" # ")[0].rstrip())
        if said and not _PLACEHOLDER.search(said["words"]):
            why = mistake(shlex.split(said["words"].split(" > ")[0]))
            wrong += [f"{named(page)}:{example.line}: {example.command}: {why}"] if why else []
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_command_named_in_a_sentence_is_there(page: Path) -> None:
    spans = re.findall(r"`anygpu ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?", page.read_text(encoding="utf-8"))
    for first, second in spans:
        found = load_command(first)
        assert found is not None, f"{named(page)} speaks of `anygpu {first}`"
        if isinstance(found, click.Group) and second:
            assert second in found.commands, f"{named(page)} speaks of `anygpu {first} {second}`"


def _messages(path: Path) -> Iterator[str]:
    """All texts in a Python file, with `{}` in place of the values of an f-string."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)


def _unknown_part(words: list[str]) -> str:
    """The first word of a command in a message that is neither a command nor an option; empty if all are known."""
    found: click.Command | None = load_command(words[0])
    rest = words[1:]
    while isinstance(found, click.Group) and rest and rest[0].isalpha() and rest[0].islower():
        found, rest = found.commands.get(rest[0]), rest[1:]
    if found is None:
        return " ".join(words)
    known = {name for param in found.params for name in (*param.opts, *param.secondary_opts)} | {"--help"}
    ours = itertools.takewhile(lambda word: word != "--" and not word.endswith(".py"), rest)
    options = (word.split("=")[0] for word in ours if word.startswith("-"))
    return next((option for option in options if option not in known), "")


def test_every_command_named_in_a_message_exists() -> None:
    wrong = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        for text in _messages(path):
            for shown in re.findall(r"`anygpu ([a-z][^`]*)`", text):
                why = _unknown_part(shown.split())
                wrong += [f"{named(path)}: `anygpu {shown}`: {why}"] if why else []
    assert wrong == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_program_shown_takes_the_options_it_is_shown_with(page: Path) -> None:
    for example in indented(page, "python -m"):
        module, *words = shlex.split(example.command, comments=True)[2:]
        if module == "anygpu.trainers":
            assert _parser().parse_args(words).trainer
            continue
        places = [ROOT / "src" / module.replace(".", "/"), ROOT / module.replace(".", "/")]
        found = [file for place in places for file in (place.with_suffix(".py"), place / "__main__.py")]
        text = "".join(file.read_text() for file in found if file.is_file())
        options = [word for word in words if word.startswith("--")]
        assert text, f"{named(page)}:{example.line}: there is no {module}"
        assert [each for each in options if f'"{each}"' not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_every_yaml_shown_is_a_job(page: Path) -> None:
    for line, text in blocks(page, "yaml"):
        assert from_yaml(text, f"{named(page)}:{line}").kind


@pytest.mark.parametrize("path", JOBS, ids=named)
def test_the_job_of_every_example_is_one_and_is_shown_how_to_run(path: Path) -> None:
    assert from_file(path).name
    assert "anygpu run job.yaml" in path.read_text()


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_what_the_python_of_a_page_imports_of_anygpu_is_there(page: Path) -> None:
    for line, code in blocks(page, "python"):
        for node in ast.walk(ast.parse(code, f"{named(page)}:{line}")):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("anygpu"):
                names = ", ".join(each.name for each in node.names)
                exec(f"from {node.module} import {names}", {})
