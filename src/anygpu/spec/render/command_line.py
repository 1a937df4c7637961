"""Render a spec mapping as an `anygpu run` command. Every value is quoted for a POSIX shell.

A value with characters that a terminal would interpret is written as JSON with escapes, so that the command can be
pasted safely.
"""

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from anygpu.spec.flags import FLAGS, OPTIONS_AFTER_SCRIPT, parse_value
from anygpu.spec.shorthand import STRATEGIES, long_form

PROGRAM = ("anygpu", "run")

# Fields with an option of `anygpu run` that takes one value, and those with an option for each item of a list.
_SINGLE = {
    "name": "--name",
    "resources.gpu": "--gpu",
    "resources.cpus": "--cpus",
    "resources.memory": "--memory",
    "resources.nodes": "--nodes",
    "launcher": "--launcher",
    "checkpoint.every": "--checkpoint-every",
    "trainer": "--trainer",
    "dataset": "--dataset",
    "limits.timeout": "--timeout",
    "limits.max_cost": "--max-cost",
    "limits.deadline": "--deadline",
    "limits.max_retries": "--max-retries",
    "placement.strategy": "--on",
    "placement.region": "--region",
    "placement.move": "--move",
    "priority": "--priority",
    "python": "--python",
    "workdir.path": "--workdir",
    "idempotency_key": "--key",
}
_REPEATED = {
    "tags": "--tag",
    "outputs": "--output",
    "checkpoint.paths": "--checkpoint",
    "checkpoint.resume_args": "--resume-arg",
    "setup": "--setup",
}
_TARGETS = ("script", "args", "command")
_SETTABLE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_FILE_SUFFIXES = (".txt", ".in")
CAPTURE = "auto"


def shell_command(mapping: Mapping[str, Any]) -> str:
    """Return the command that submits the job."""
    target, in_target = _target_words(mapping)
    options = [
        word
        for path, value in _leaves({key: each for key, each in mapping.items() if key not in in_target})
        for word in _option_words(path, value)
    ]
    return shlex.join([*PROGRAM, *options, *target])


def _target_words(mapping: Mapping[str, Any]) -> tuple[list[str], set[str]]:
    """Return the words after the options, and the fields that they set."""
    script, command = mapping.get("script"), mapping.get("command")
    args = [str(word) for word in mapping.get("args", ())]
    if isinstance(command, Sequence) and not isinstance(command, str) and _all_printable(command):
        return ["--", *command], {"command"}
    if not isinstance(script, str) or not script.endswith(".py") or not _all_printable([script, *args]):
        return [], set()
    is_ambiguous = any(word == "--" or word.partition("=")[0] in OPTIONS_AFTER_SCRIPT for word in args)
    return [script, *(["--"] if is_ambiguous else []), *args], {"script", "args"}


def _leaves(mapping: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield path and value of each field; a section of the spec is split into its fields."""
    sections = {path.partition(".")[0] for path in FLAGS.values() if "." in path}
    for name, value in mapping.items():
        section = long_form(name, value) if name == "workdir" else value
        if name in sections and isinstance(section, Mapping) and section:
            yield from _section_leaves(name, section)
        else:
            yield name, value


def _section_leaves(name: str, section: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    names = section.get("allowed")
    if name == "placement" and section.get("strategy") == "preferred" and _is_order(names, section):
        yield "placement.on", ",".join(names or ())
        section = {
            key: each for key, each in section.items() if key not in ("strategy", "allowed", "fallbacks")
        }
    for key, value in section.items():
        yield f"{name}.{key}", value


def _is_order(names: Any, section: Mapping[str, Any]) -> bool:
    """Return whether `--on a,b` means these allowed backends and fallbacks."""
    is_strategy = isinstance(names, list) and len(names) == 1 and names[0] in STRATEGIES
    return bool(names) and names == section.get("fallbacks") and not is_strategy


def _option_words(path: str, value: Any) -> list[str]:
    if path == "placement.on":
        return _option("--on", value)
    if path == "placement.paid" and value is not None:
        return ["--paid" if value else "--no-paid"]
    if path == "workdir.snapshot" and value is True:
        return ["--snapshot"]
    if path in _PAIRS and isinstance(value, Mapping):
        return [word for key, each in value.items() for word in _pair_words(path, key, each)]
    if path == "secrets":
        return _secret_words(value)
    if path == "requirements":
        return _requirement_words(value)
    if path in _REPEATED and isinstance(value, Sequence) and not isinstance(value, str):
        return _repeated_words(path, [str(item) for item in value])
    if path in _SINGLE and value is not None and _is_plain(value) and not isinstance(value, bool):
        return _option(_SINGLE[path], str(value))
    return _set_words(path, value)


_PAIRS = {"env": "--env", "config": "--config"}


def _pair_words(path: str, key: str, value: Any) -> list[str]:
    """Return the words for one environment variable or one setting of a trainer."""
    text = value if path == "env" else _value_text(value)
    if _is_printable(key) and "=" not in key and _is_printable(text) and (path == "config" or text == value):
        return _option(_PAIRS[path], f"{key}={text}")
    if _SETTABLE_KEY.fullmatch(key):
        return _set_words(f"{path}.{key}", value)
    return _set_words(path, {key: value})


def _secret_words(value: Any) -> list[str]:
    pairs = {name: name for name in value} if isinstance(value, list) else dict(value)
    return [
        word
        for variable, name in pairs.items()
        for word in _option("--secret", name if name == variable else f"{variable}={name}")
    ]


def _requirement_words(value: Any) -> list[str]:
    """Return the words for a requirements file or a list of requirements.

    A single value is ambiguous: the command reads one that looks like a file name as the path of a file.
    """
    is_file = isinstance(value, str)
    items = [value] if isinstance(value, str) else list(value)
    looks_like_file = len(items) == 1 and items[0].endswith(_FILE_SUFFIXES)
    if is_file != looks_like_file or not _all_printable(items) or CAPTURE in items:
        return _set_words("requirements", value)
    return [word for item in items for word in _option("--requirements", item)]


def _repeated_words(path: str, items: list[str]) -> list[str]:
    if not items or not _all_printable(items):
        return _set_words(path, items)
    return [word for item in items for word in _option(_REPEATED[path], item)]


def _option(name: str, value: str) -> list[str]:
    """Return an option with its value; as one word if the value could be read as an option."""
    return [f"{name}={value}"] if value.startswith("-") or not value else [name, value]


def _set_words(path: str, value: Any) -> list[str]:
    return ["--set", f"{path}={_value_text(value)}"]


def _value_text(value: Any) -> str:
    """Return the text that `--set` and `--config` parse to this value."""
    if isinstance(value, str) and _is_printable(value) and parse_value(value) == value:
        return value
    return json.dumps(value)


def _is_plain(value: Any) -> bool:
    """Return whether a value is a number, or text that is safe to paste."""
    return isinstance(value, int | float) or (isinstance(value, str) and _is_printable(value))


def _all_printable(words: Sequence[Any]) -> bool:
    return all(isinstance(word, str) and _is_printable(word) for word in words)


def _is_printable(text: Any) -> bool:
    """Return whether a text has no control characters and none that change the direction of the text."""
    return isinstance(text, str) and text.isprintable()
