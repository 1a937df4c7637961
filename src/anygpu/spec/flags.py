"""Command-line flags -> the same mapping a file holds, laid over the file's. No models, so it starts fast."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from anygpu.errors import InvalidSpec, Problem
from anygpu.spec.documents import MAX_DEPTH, Document, format_path, invalid_document, parse_scalar
from anygpu.spec.shorthand import STRATEGIES, long_form, other_names
from anygpu.suggest import did_you_mean

SOURCE = "flags"

# Each flag and the place it sets. Flags whose place differs from their name are those people type most.
FLAGS: Mapping[str, str] = {
    **{name: name for name in ("script", "args", "command", "trainer", "config", "code", "name", "env")},
    **{
        name: name
        for name in ("workdir", "setup", "requirements", "image", "python", "dataset", "resume_from")
    },
    **{name: name for name in ("notify", "priority", "idempotency_key")},
    **{name: f"resources.{name}" for name in ("gpu", "cpus", "memory", "disk")},
    **{name: f"limits.{name}" for name in ("timeout", "max_cost", "deadline", "max_retries")},
    **{name: f"placement.{name}" for name in ("strategy", "profile", "region", "zone", "instance_type")},
    **{
        name: f"placement.{name}"
        for name in ("interruptible", "dedicated", "hold_on_failure", "expected_duration", "move")
    },
    **{name: f"track.{name}" for name in ("mlflow", "wandb", "tensorboard")},
    "tag": "tags",
    "secret": "secrets",
    "ignore": "workdir.ignore",
    "output": "outputs",
    "fallback": "placement.fallbacks",
    "allow": "placement.allowed",
    "forbid": "placement.forbidden",
    "checkpoint_every": "checkpoint.every",
    "checkpoint_path": "checkpoint.paths",
    "resume_args": "checkpoint.resume_args",
    "keep": "checkpoint.keep",
}
FIELDS = frozenset(path.partition(".")[0] for path in FLAGS.values())  # of the spec, on its first level
_PAIRS = {"env": False, "config": True}  # flag of KEY=VALUE pairs: is the value more than text?


def from_flags(flags: Mapping[str, Any], sets: Sequence[str] = ()) -> dict[str, Any]:
    """`{"gpu": "A100", "env": ["A=1"]}`, `["limits.timeout=6h"]` -> a mapping. None and () are not given."""
    found: dict[str, Any] = {}
    for name, value in flags.items():
        if value is None or value == ():
            continue
        found = merge(found, _flag_to_mapping(name, value))
    for text in sets:
        found = merge(found, _parse_setting(text))
    return found


def merge(base: Mapping[str, Any], over: Mapping[str, Any], place: tuple[str, ...] = ()) -> dict[str, Any]:
    """`over` wins. Mappings are merged, lists replaced, and so is another name for the same field."""
    merged = dict(base)
    for key, value in over.items():
        for twin in other_names(format_path(place), key):
            merged.pop(twin, None)
        here = (*place, key)
        merged[key] = _merge_value(long_form(format_path(here), merged.get(key)), value, here)
    return merged


def over_document(document: Document, over: Mapping[str, Any]) -> Document:
    """The file with the flags laid over it; what a flag replaced no longer points at a line of the file."""
    replaced = {(key, *rest) for key, rest in _leaves(over)}
    lines = {place: line for place, line in document.lines.items() if place not in replaced}
    return Document(merge(document.data, over), document.source, lines)


def _merge_value(old: Any, new: Any, place: tuple[str, ...]) -> Any:
    if not isinstance(new, Mapping):
        return new
    return merge(old if isinstance(old, Mapping) else {}, new, place)


def _leaves(mapping: Mapping[str, Any]) -> Iterable[tuple[str, tuple[str, ...]]]:
    for key, value in mapping.items():
        inner = list(_leaves(value)) if isinstance(value, Mapping) else []
        yield from ((key, (first, *rest)) for first, rest in inner)
        if not inner:
            yield key, ()


def _flag_to_mapping(name: str, value: Any) -> dict[str, Any]:
    if name == "on":
        return {"placement": _parse_on(value)}
    if name not in FLAGS:
        raise _unknown_flag(name, value)
    if name in _PAIRS and not isinstance(value, Mapping):
        value = _parse_pairs(name, _as_list(value))
    if name == "secret":
        value = {env: secret or env for env, _, secret in (text.partition("=") for text in _as_list(value))}
    return _nest(FLAGS[name].split("."), list(value) if isinstance(value, tuple) else value)


def _parse_on(value: Any) -> dict[str, Any]:
    """`--on cheapest` is a strategy; `--on lab,aws` are backends, tried in that order and no others."""
    if value in STRATEGIES:
        return {"strategy": value}
    names = [name.strip() for text in _as_list(value) for name in str(text).split(",") if name.strip()]
    return {"strategy": "preferred", "allowed": names, "fallbacks": names}


def _parse_setting(text: str) -> dict[str, Any]:
    path, equals, value = text.partition("=")
    parts = [part.strip() for part in path.split(".")]
    if not equals or not all(parts) or len(parts) > MAX_DEPTH:
        message = f"{text[:100]!r} is not a setting; write it as 'limits.timeout=6h'"
        raise invalid_document(SOURCE, message, place="set", value=text[:100])
    return _nest(parts, _parse_value(value))


def _parse_value(text: str) -> Any:
    """A word as YAML reads it; lists, mappings and quoted texts as JSON."""
    if text[:1] not in ("[", "{", '"'):
        return parse_scalar(text)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _parse_pairs(name: str, texts: Iterable[Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for text in texts:
        key, equals, value = str(text).partition("=")
        if not equals:
            raise invalid_document(
                SOURCE,
                f"{str(text)[:100]!r} is not a pair; write KEY=VALUE",
                place=name,
                value=str(text)[:100],
            )
        found[key] = _parse_value(value) if _PAIRS[name] else value
    return found


def _nest(parts: Sequence[str], value: Any) -> dict[str, Any]:
    for part in reversed(parts):
        value = {part: value}
    return dict(value)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _unknown_flag(name: str, value: Any) -> InvalidSpec:
    near = did_you_mean(name, [*FLAGS, "on"])
    return InvalidSpec([Problem(name[:100], str(value)[:100], "unknown flag", near, SOURCE)])
