"""Translate command-line flags into a spec mapping, and merge the mapping over a file.

Imports no models, so that the command line starts fast.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from anygpu.errors import InvalidSpec, Problem
from anygpu.spec.documents import MAX_DEPTH, Document, format_path, invalid_document, parse_scalar
from anygpu.spec.shorthand import STRATEGIES, long_form, other_names
from anygpu.suggest import did_you_mean

SOURCE = "flags"

# Each flag and the path it sets. Frequently used flags have shorter names than their paths.
FLAGS: Mapping[str, str] = {
    **{name: name for name in ("script", "args", "command", "trainer", "config", "code", "name", "env")},
    **{
        name: name
        for name in ("workdir", "setup", "requirements", "image", "python", "dataset", "resume_from")
    },
    **{name: name for name in ("notify", "priority", "idempotency_key", "launcher", "processes_per_node")},
    **{name: f"resources.{name}" for name in ("gpu", "cpus", "memory", "disk", "nodes")},
    **{name: f"limits.{name}" for name in ("timeout", "max_cost", "deadline", "max_retries")},
    **{name: f"placement.{name}" for name in ("strategy", "profile", "region", "zone", "instance_type")},
    **{
        name: f"placement.{name}"
        for name in ("paid", "interruptible", "dedicated", "hold_on_failure", "expected_duration", "move")
    },
    **{name: f"track.{name}" for name in ("mlflow", "wandb", "tensorboard")},
    "tag": "tags",
    "secret": "secrets",
    "ignore": "workdir.ignore",
    "snapshot": "workdir.snapshot",
    "output": "outputs",
    "fallback": "placement.fallbacks",
    "allow": "placement.allowed",
    "forbid": "placement.forbidden",
    "checkpoint_every": "checkpoint.every",
    "checkpoint_path": "checkpoint.paths",
    "resume_args": "checkpoint.resume_args",
    "keep": "checkpoint.keep",
}
OPTIONS_AFTER_SCRIPT = ("--on", "--max-cost", "--deadline")  # `anygpu run` takes these also after the script
FIELDS = frozenset(
    path.partition(".")[0] for path in FLAGS.values()
)  # top-level fields of the spec that flags set
_PAIRS = {"env": False, "config": True}  # flags of KEY=VALUE pairs, and whether values are parsed


def from_flags(flags: Mapping[str, Any], sets: Sequence[str] = ()) -> dict[str, Any]:
    """Translate flags and `--set` assignments into a spec mapping.

    Flags are like `{"gpu": "A100", "env": ["A=1"]}`, assignments like `["limits.timeout=6h"]`. Flags with the
    value None or () are skipped.
    """
    mapping: dict[str, Any] = {}
    for name, value in flags.items():
        if value is None or value == ():
            continue
        mapping = merge(mapping, _flag_to_mapping(name, value))
    for text in sets:
        mapping = merge(mapping, _parse_setting(text))
    return mapping


def merge(base: Mapping[str, Any], over: Mapping[str, Any], place: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return `base` with `over` merged into it.

    Mappings are merged key by key, and lists are replaced. If `over` sets a field under one name, the other names of
    this field are removed from `base`.
    """
    merged = dict(base)
    for key, value in over.items():
        for other in other_names(format_path(place), key):
            merged.pop(other, None)
        here = (*place, key)
        merged[key] = _merge_value(long_form(format_path(here), merged.get(key)), value, here)
    return merged


def over_document(document: Document, over: Mapping[str, Any]) -> Document:
    """Return the document with flags merged over it. Fields that a flag replaced lose their line number."""
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
    """Parse the value of `--on`.

    A strategy such as `cheapest` sets the strategy; names such as `lab,aws` are the only allowed backends,
    tried in this order.
    """
    if value in STRATEGIES:
        return {"strategy": value}
    names = [name.strip() for text in _as_list(value) for name in str(text).split(",") if name.strip()]
    return {"strategy": "preferred", "allowed": names, "fallbacks": names}


def _parse_setting(text: str) -> dict[str, Any]:
    path, equals, value = text.partition("=")
    parts = [part.strip() for part in path.split(".")]
    if not equals or not all(parts) or len(parts) > MAX_DEPTH:
        message = (
            f"{text[:100]!r} does not set a field of the job; write FIELD=VALUE, such as 'limits.timeout=6h'"
        )
        raise invalid_document(SOURCE, message, place="set", value=text[:100])
    return _nest(parts, parse_value(value))


def parse_value(text: str) -> Any:
    """Parse lists, mappings and quoted texts as JSON, and anything else as a YAML scalar."""
    if text[:1] not in ("[", "{", '"'):
        return parse_scalar(text)
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _parse_pairs(name: str, texts: Iterable[Any]) -> dict[str, Any]:
    pairs: dict[str, Any] = {}
    for text in texts:
        key, equals, value = str(text).partition("=")
        if not equals:
            raise invalid_document(
                SOURCE,
                f"{str(text)[:100]!r} is not a pair of key and value; write KEY=VALUE",
                place=name,
                value=str(text)[:100],
            )
        pairs[key] = parse_value(value) if _PAIRS[name] else value
    return pairs


def _nest(parts: Sequence[str], value: Any) -> dict[str, Any]:
    for part in reversed(parts):
        value = {part: value}
    return dict(value)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _unknown_flag(name: str, value: Any) -> InvalidSpec:
    near = did_you_mean(name, [*FLAGS, "on"])
    return InvalidSpec([Problem(name[:100], str(value)[:100], "is not an option of a job", near, SOURCE)])
