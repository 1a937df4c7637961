"""`anygpu trainer`: list the built-in trainers, show their settings, write their scripts."""

import importlib.util
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anygpu.cli.connection import json_option
from anygpu.cli.exits import print_message
from anygpu.cli.root import SuggestingGroup
from anygpu.cli.terminal import output
from anygpu.cli.terminal.output import emit, emit_json
from anygpu.installation import find_installation

if TYPE_CHECKING:
    from anygpu.trainers import AnyTrainer


@click.group(name="trainer", cls=SuggestingGroup)
def trainer_command() -> None:
    """List trainers, which train without a script: YOLO, tables, language models, your own plugins."""


@trainer_command.command(name="ls")
@json_option
def list_trainers(as_json: bool) -> None:
    """List the trainers, their tasks, and whether their packages are installed."""
    from anygpu.trainers import names

    rows = [_describe_trainer(name) for name in names()]
    if as_json:
        emit_json({"trainers": rows})
        return
    heading = ("NAME", "INSTALLED", "LICENCE", "TASKS")
    emit(output.table(heading, [(row["name"], row["installed"], row["licence"], row["for"]) for row in rows]))


@trainer_command.command(name="show")
@click.argument("name")
@json_option
def show_trainer(name: str, as_json: bool) -> None:
    """Show the settings of a trainer with their defaults."""
    about = {
        **_describe_trainer(name),
        "settings": _default_settings(_find_trainer(name)),
        "options": _default_options(_find_trainer(name)),
    }
    if as_json:
        emit_json(about)
        return
    emit(output.fields([(key, str(about[key])) for key in ("name", "for", "installed", "licence")]))
    emit(["", *output.table(("SETTING", "DEFAULT"), list(_value_rows(about["settings"])))])
    emit(["", *_option_lines(about["options"])])


@trainer_command.command(name="script")
@click.option("--framework", "--trainer", "trainer", required=True, help="Trainer: yolo, tabular, …")
@click.option(
    "--dataset",
    default="",
    help="Default path of the dataset in the script; an argument of the script overrides it.",
)
@click.option("--config", "-c", multiple=True, help="Trainer setting, for example -c epochs=50. Repeatable.")
@click.option("--set", "sets", multiple=True, help="Same as --config.")
@click.option(
    "--output", "-o", type=click.Path(dir_okay=False, path_type=Path), help="Write the script to this file."
)
@json_option
def write_script(
    trainer: str,
    dataset: str,
    config: tuple[str, ...],
    sets: tuple[str, ...],
    output: Path | None,
    as_json: bool,
) -> None:
    """Write a plain Python script that does the same training as TRAINER.

    The script prints its progress as JSON lines: {"type": "progress", "data": {…}}.
    """
    from anygpu.spec.flags import from_flags
    from anygpu.trainers import TrainerError, scripts

    settings = from_flags({"config": (*config, *sets)}).get("config", {})
    try:
        text = scripts.script(trainer, settings, dataset)
    except TrainerError as error:
        raise _as_invalid_spec(error) from None
    if output is not None:
        output.write_text(text, encoding="utf-8")
    if as_json:
        emit_json({"script": text, "written_to": None if output is None else str(output)})
    elif output is None:
        click.echo(text, nl=False)
    else:
        print_message(f"Wrote {output}. Run it with `python {output}`.")


def _find_trainer(name: str) -> "type[AnyTrainer]":
    from anygpu.trainers import TrainerError, find

    try:
        return find(name)
    except TrainerError as error:
        raise _as_invalid_spec(error) from None


def _as_invalid_spec(error: Exception) -> Exception:
    from anygpu.errors import InvalidSpec, Problem

    return InvalidSpec([Problem("", None, line) for line in str(error).splitlines()])


def _describe_trainer(name: str) -> dict[str, Any]:
    try:
        kind = _find_trainer(name)
    except ImportError as error:  # a plugin that cannot be loaded
        return {"name": name, "for": "-", "installed": f"no: {error}", "licence": "-", "extra": ""}
    missing = [module for module in kind.needs if importlib.util.find_spec(module) is None]
    installed = f"no: {find_installation().extra_command(kind.extra)}" if missing else "yes"
    tasks = ", ".join(kind.accepts.tasks) or "-"
    return {"name": name, "for": tasks, "installed": installed, "licence": kind.licence, "extra": kind.extra}


def _default_settings(kind: "type[AnyTrainer]") -> dict[str, Any]:
    from dataclasses import asdict

    from anygpu.trainers import TrainingConfig

    usual = {**asdict(TrainingConfig()), **kind.accepts.defaults}
    return {name: usual[name] for name in usual if name not in (*kind.accepts.ignores, "options")}


def _default_options(kind: "type[AnyTrainer]") -> dict[str, Any]:
    """Return the trainer's options with their defaults. None means that the framework chooses."""
    own = kind.options
    return {
        name: getattr(own.get(name), "default", own.get(name))
        for name in sorted(kind.accepts.options, key=lambda name: (name not in own, name))
    }


def _option_lines(options: dict[str, Any]) -> list[str]:
    """Return a table of the options that have a default, and one line with the names of the other options."""
    own = {name: value for name, value in options.items() if value is not None}
    others = ", ".join(name for name in options if name not in own)
    lines = output.table(("OPTION", "DEFAULT"), _value_rows(own)) if own else []
    return [*lines, *(textwrap.wrap(f"Other options: {others}", output.terminal_width()) if others else [])]


def _value_rows(values: dict[str, Any]) -> list[tuple[str, str]]:
    unset = ("", None)
    listed = {name: ", ".join(value) if isinstance(value, tuple) else value for name, value in values.items()}
    return [(name, "-" if value in unset else str(value)) for name, value in listed.items()]
