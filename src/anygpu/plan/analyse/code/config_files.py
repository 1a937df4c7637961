"""Read a script's configuration files (YAML, JSON, TOML, Python) as values with names like `model.width`."""

import ast
import itertools
import json
import posixpath
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import yaml

from anygpu.plan.analyse.code.conditions import is_plausible
from anygpu.plan.analyse.code.source import read_source
from anygpu.plan.analyse.code.syntax import SyntaxFacts
from anygpu.plan.analyse.findings import ReadProblem

MAX_CHARS = 200_000
MAX_SLOW_CHARS = 60_000  # for formats whose parsers are slow
MAX_DOTS = 50  # in a line of TOML: a key with thousands of parts takes minutes to parse
MAX_TOTAL_CHARS = 300_000
MAX_DEPTH = 8
MAX_NODES = 4000  # a few lines of YAML can expand to a billion values through aliases
_SUFFIXES = (".yaml", ".yml", ".json", ".toml")
_DEFAULT = re.compile(r"(?m)^[ \t]*-[ \t]*(?:override[ \t]+)?/?([\w/]+):[ \t]*([\w.-]+)[ \t]*(?:#.*)?$")
_KEY = re.compile(r"\s*[\"']?([^\s\"':=]+)[\"']?\s*[:=]")
# Exceptions of the parsers for invalid files.
_UNREADABLE = (
    ValueError,
    ArithmeticError,
    yaml.YAMLError,
    RecursionError,
    LookupError,
    TypeError,
    AttributeError,
    MemoryError,
)


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """One value of a configuration file."""

    path: str
    value: int | float | str | bool | None
    file: str
    line: int = 0


def find_config_files(
    facts: SyntaxFacts, args: tuple[str, ...], files: Mapping[str, str | bytes]
) -> list[str]:
    """Return the names of the configuration files that the code or the command line mentions."""
    named = [word for call in facts.calls for word in _string_arguments(call.node)] + list(args)
    names = {_file_name(word.rpartition("=")[2]) for word in named} - {""}
    wanted = [n for n in files if n.endswith(_SUFFIXES) and _file_name(n) in names]
    hydra = [
        n
        for call in facts.calls
        if call.name.endswith("hydra.main")
        for n in _hydra_files(call.node, args, files)
    ]
    words = [word.rpartition("=")[2] for word in args]
    overrides = [word for word in words if word.endswith(".py") and word in files]
    bases = [base for name in overrides for base in _base_configs(name, files)]
    return list(_within_budget(dict.fromkeys([*hydra, *wanted, *overrides, *bases]), files))


def _base_configs(name: str, files: Mapping[str, str | bytes]) -> Iterator[str]:
    """Yield the files that a Python configuration inherits from, by mmdetection's `_base_` variable."""
    text = files[name]
    if len(text) > MAX_CHARS:
        return
    for node in read_source(name, text).tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "_base_":
            named = _literal(node.value, {})
            for base in (
                [named] if isinstance(named, str) else named if isinstance(named, list | tuple) else ()
            ):
                path = posixpath.normpath(posixpath.join(posixpath.dirname(name), str(base)))
                if path in files:
                    yield path


def _within_budget(names: Iterable[str], files: Mapping[str, str | bytes]) -> Iterator[str]:
    """Yield the names of files in order, until the total size of the files would exceed `MAX_TOTAL_CHARS`."""
    budget = MAX_TOTAL_CHARS
    for name in names:
        budget -= min(MAX_CHARS, len(files[name]))
        if budget >= 0:
            yield name


def read_config(name: str, data: str | bytes) -> tuple[list[ConfigValue], list[ReadProblem]]:
    """Return the values in one file, and the problems of reading it.

    Nothing is raised for an invalid file.
    """
    text = data if isinstance(data, str) else data.decode("utf-8", "replace")
    if len(text) > (MAX_SLOW_CHARS if name.endswith((".yaml", ".yml", ".toml")) else MAX_CHARS):
        return [], [
            ReadProblem(file=name, message="is too large for a configuration file; its values are ignored")
        ]
    try:
        return _read(name, text), []
    except _UNREADABLE as error:
        return [], [
            ReadProblem(
                file=name,
                message=f"cannot be read as configuration ({type(error).__name__}); correct its syntax",
            )
        ]


def _read(name: str, text: str) -> list[ConfigValue]:
    if name.endswith(".py"):
        return list(_assignments(name, text))
    if name.endswith(".json"):
        tree = json.loads(text)
    elif name.endswith(".toml"):
        tree = _toml(text)
    else:
        tree = yaml.load(text, Loader=_LenientLoader)  # noqa: S506 - a SafeLoader that drops unknown tags
    lines = _key_lines(text)
    return [
        ConfigValue(path, value, name, lines.get(path.rpartition(".")[2], 0))
        for path, value in _flatten(tree, _node_budget())
    ]


def _toml(text: str) -> dict[str, Any]:
    if any(line.count(".") > MAX_DOTS for line in text.split("\n")):
        raise ValueError(f"a line has more than {MAX_DOTS} dots; split the line")
    return tomllib.loads(text)


class _LenientLoader(yaml.SafeLoader):
    """A YAML loader that ignores unknown tags such as `!include` and limits the size of merged mappings."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        if len(node.value) > MAX_NODES:
            raise yaml.YAMLError("a YAML merge (`<<`) makes the file too large; write the values out")


def _plain(loader: yaml.SafeLoader, _: str, node: yaml.Node) -> Any:
    if isinstance(node, yaml.MappingNode):
        return loader.construct_mapping(node, deep=True)
    if isinstance(node, yaml.SequenceNode):
        return loader.construct_sequence(node, deep=True)
    return loader.construct_scalar(node) if isinstance(node, yaml.ScalarNode) else None


_LenientLoader.add_multi_constructor("!", _plain)


def _flatten(tree: Any, room: Iterator[int]) -> Iterator[tuple[str, int | float | str | bool | None]]:
    """Yield each value with its dotted name, such as `model.width`.

    Stops after a limited number of nodes, which the iterator `room` counts.
    """
    stack = [("", 0, tree)]
    while stack and next(room, None) is not None:
        path, depth, found = stack.pop()
        if isinstance(found, dict) and depth < MAX_DEPTH:
            first = itertools.islice(found.items(), MAX_NODES)
            under = [(f"{path}.{key}" if path else str(key), depth + 1, value) for key, value in first]
            stack += reversed(under)
        elif isinstance(found, str):
            yield path, _number(found)
        elif isinstance(found, int | float | None) and is_plausible(found):
            yield path, found


def _node_budget() -> Iterator[int]:
    return iter(range(MAX_NODES))


def _number(text: str) -> float | str:
    """Parse numbers such as `3e-4`, which YAML 1.1 reads as text; return any other text unchanged."""
    written = re.fullmatch(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+", text)
    return float(text) if written and is_plausible(float(text)) else text


def _assignments(name: str, text: str) -> Iterator[ConfigValue]:
    names_so_far: dict[str, Any] = {}
    room = _node_budget()
    lines = _key_lines(text)
    tree = read_source(name, text).tree
    yield from _from_config_function(name, tree, room)
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            key = node.targets[0].id
            names_so_far[key] = _literal(node.value, names_so_far)
            if key == "_base_":
                yield from (
                    ConfigValue(key, stem, name, node.lineno) for stem in _base_model(names_so_far[key])
                )
                continue
            for path, value in _flatten({key: names_so_far[key]}, room):
                line = lines.get(path.rpartition(".")[2], node.lineno)
                yield ConfigValue(path, value, name, node.lineno if path == key else line)


def _from_config_function(name: str, tree: ast.Module, room: Iterator[int]) -> Iterator[ConfigValue]:
    """Yield the values that a function such as `get_config` sets, for example `config.optimizer.lr = 0.1`."""
    made = (part for part in tree.body if isinstance(part, ast.FunctionDef) and "config" in part.name)
    for node in (statement for function in made for statement in function.body):
        target = node.targets[0] if isinstance(node, ast.Assign) else None
        if isinstance(node, ast.Assign) and isinstance(target, ast.Attribute):
            path = ast.unparse(target).partition(".")[2]
            found = _flatten({path: _literal(node.value, {})}, room)
            yield from (ConfigValue(at, value, name, node.lineno) for at, value in found)


def _literal(node: ast.expr, names_so_far: Mapping[str, Any], depth: int = 0) -> Any:
    """Return the value of a literal, of `dict(...)`, or of a name defined earlier in the file.

    Return None for anything else.
    """
    if depth > MAX_DEPTH:
        return None
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "dict":
        return {k.arg: _literal(k.value, names_so_far, depth + 1) for k in node.keywords if k.arg}
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {
            k.value: _literal(v, names_so_far, depth + 1) for k, v in pairs if isinstance(k, ast.Constant)
        }
    if isinstance(node, ast.Name):
        return names_so_far.get(node.id)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, RecursionError):
        return None


def _base_model(bases: Any) -> list[str]:
    """Return the model that mmdetection's `_base_` names, as a list of at most one name.

    For `_base_ = ["../_base_/models/retinanet_r50_fpn.py"]` this is `retinanet_r50_fpn`.
    """
    names = [bases] if isinstance(bases, str) else bases if isinstance(bases, list | tuple) else []
    found = [PurePosixPath(n).stem for n in names if isinstance(n, str) and "models/" in n]
    return (found or [PurePosixPath(n).stem for n in names if isinstance(n, str)])[:1]


def _key_lines(text: str) -> dict[str, int]:
    """Return for each key of a configuration file the first line that has it."""
    found: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        if match := _KEY.match(line):
            found.setdefault(match[1], number)
    return found


def _string_arguments(node: ast.Call) -> Iterator[str]:
    for value in [*node.args, *(keyword.value for keyword in node.keywords)]:
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.value


def _file_name(path: str) -> str:
    return PurePosixPath(path).name


def _hydra_files(node: ast.Call, args: tuple[str, ...], files: Mapping[str, str | bytes]) -> Iterator[str]:
    """Yield Hydra's main configuration file, then the selected file of each configuration group."""
    arguments = {k.arg: _last_word(k.value) for k in node.keywords if k.arg}
    stem = (arguments.get("config_name") or "config").removesuffix(".yaml")
    folder = (arguments.get("config_path") or ".").strip("./")
    main = [n for n in files if PurePosixPath(n).stem == stem and folder in n and n.endswith(_SUFFIXES)]
    yield from main
    below = [n for n in files if folder and n.startswith(folder + "/") and n.endswith(_SUFFIXES)]
    chosen = _hydra_choices(files[main[0]], args) if main else {}
    for name in below:
        group = str(PurePosixPath(name).parent.relative_to(folder))
        if chosen.get(group, PurePosixPath(name).stem) == PurePosixPath(name).stem:
            yield name


def _last_word(node: ast.expr) -> str:
    """Return the last string in an expression, such as "configs" in `root / "configs"`; empty if none."""
    words = [n.value for n in ast.walk(node) if isinstance(n, ast.Constant) and isinstance(n.value, str)]
    return words[-1] if words else ""


def _hydra_choices(main: str | bytes, args: tuple[str, ...]) -> dict[str, str]:
    """Return which file is selected in each Hydra configuration group.

    Both `- model: vit` under `defaults:` and `model=vit` in `args` select `vit` in the group `model`.
    """
    text = main if isinstance(main, str) else main.decode("utf-8", "replace")
    pairs = _DEFAULT.findall(text[:MAX_SLOW_CHARS])
    given = [word.lstrip("+").split("=", 1) for word in args if "=" in word]
    arguments = dict([*pairs, *((group, name) for group, name in given if group in dict(pairs))])
    return {group: name.removesuffix(".yaml") for group, name in arguments.items()}
