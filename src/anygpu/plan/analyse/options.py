"""Where names get their values: config files, parser options and their defaults, the command line."""

import ast
from collections.abc import Iterable, Mapping, Sequence

from anygpu.plan.analyse import presets
from anygpu.plan.analyse.configs import Leaf
from anygpu.plan.analyse.facts import Call, Facts, normal
from anygpu.plan.analyse.findings import LIKELY, SURE
from anygpu.plan.analyse.settings import Plain, Settings, Value, plain

_OPTIONS = ("add_argument", "add_arg", "option", "Option", "argument", "arg")
_FLAGS = ("DEFINE_integer", "DEFINE_float", "DEFINE_string", "DEFINE_bool", "DEFINE_boolean", "DEFINE_enum")


def collect(facts: Facts, args: Sequence[str], configs: Iterable[Leaf]) -> Settings:
    """Everything that has a name and a value."""
    settings = Settings(facts)
    for leaf in configs:
        told = Value(leaf.value, leaf.file, leaf.line, SURE, "in the configuration")
        path = normal(leaf.path)
        builds_on = path in settings.configs and settings.configs[path].file != leaf.file
        if builds_on and leaf.file.endswith(".py"):
            continue  # what a base says is overruled
        settings.configs[path] = told
        settings.configs.setdefault(path.rpartition(".")[2], told)
    aside = presets.entries(facts)
    for call in facts.calls:
        if id(call.node) in aside:
            continue
        if call.last in _OPTIONS and _is_option(call):
            _option(call, settings)
        elif call.last in _FLAGS:
            _flag(call, settings)
        elif call.last in ("set_defaults", "dict", "Namespace", "EasyDict", "Box", "edict"):
            _keywords(call, settings)
    settings.given = _given(args, settings)
    settings.forget()
    presets.take(facts, settings)
    settings.forget()
    return settings


def _is_option(call: Call) -> bool:
    first = call.node.args[0] if call.node.args else None
    return isinstance(first, ast.Constant) and isinstance(first.value, str)


def _option(call: Call, settings: Settings) -> None:
    words = [a.value for a in call.node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    longs = [word.partition("/")[0] for word in words if word.startswith("--")]
    dest = settings.text(call.argument("dest"))
    names = [str(dest.value)] if dest else (longs or [word for word in words if not word.startswith("-")])
    if call.last == "add_argument" and words[:1] and not words[0].startswith("-"):
        settings.places.append(normal(words[0]))
    settings.spellings.append({normal(name) for name in [*names, *longs]})
    action = settings.text(call.argument("action"))
    if action is not None and str(action.value).startswith("store_"):
        settings.switches.update(normal(name) for name in [*names, *longs])
    for name in [*names, *longs]:
        for short in (word for word in words if word.startswith("-") and not word.startswith("--")):
            settings.shorts[short.lstrip("-")] = normal(names[0] if names else name)
        value = _default(call, settings)
        if value is not None:
            settings.options.setdefault(normal(name), value)
        elif not call.has("default") and call.last == "add_argument":
            settings.silent.add(normal(name))


def _default(call: Call, settings: Settings) -> Value | None:
    action = settings.text(call.argument("action"))
    node = call.argument("default")
    if node is None and (call.has("is_flag") or (action is not None and action.value == "store_true")):
        return Value(False, call.file, call.line, LIKELY, "the option's default")
    if node is None and action is not None and action.value == "store_false":
        return Value(True, call.file, call.line, LIKELY, "the option's default")
    found = settings.of(node)
    if found is None:
        return None
    return Value(_typed(call, found.value), call.file, call.line, LIKELY, "the option's default")


def _typed(call: Call, value: Plain) -> Plain:
    kind = call.argument("type")
    numeric = isinstance(kind, ast.Name) and kind.id in ("int", "float")
    return plain(value) if numeric and isinstance(value, str) else value


def _flag(call: Call, settings: Settings) -> None:
    name = settings.text(call.argument("name", position=0))
    default = settings.of(call.argument("default", position=1))
    if name is not None and default is not None:
        told = Value(default.value, call.file, call.line, LIKELY, "the flag's default")
        settings.options.setdefault(normal(str(name.value)), told)


def _keywords(call: Call, settings: Settings) -> None:
    for keyword in call.node.keywords:
        found = settings.of(keyword.value) if keyword.arg else None
        if keyword.arg and found is not None and found.value is not None:
            told = Value(found.value, call.file, found.line, LIKELY, "written in the code")
            settings.options.setdefault(normal(keyword.arg), told)


def _given(args: Sequence[str], settings: Settings) -> dict[str, Value]:
    """--name value, --name=value, name=value, -b 8, bare flags and places, as argparse, hydra and others take them."""
    told: dict[str, Value] = {}
    places, taken = list(settings.places), -1
    for at, word in enumerate(args):
        name, equals, value = word.partition("=")
        is_flag = word.startswith("-") and not _is_negative(word)
        follows = args[at + 1] if at + 1 < len(args) else "-"
        if at == taken:
            continue
        if not is_flag and not equals:
            if places:
                _tell(told, {}, places.pop(0), word)
            continue
        takes = is_flag and not equals and _is_value(follows) and normal(name) not in settings.switches
        taken = at + 1 if takes else taken
        _tell(told, settings.shorts, name.lstrip("+~"), value if equals else follows if takes else "true")
    for names in settings.spellings:
        given = next((told[name] for name in names if name in told), None)
        told.update({name: given for name in names if given is not None and name not in told})
    return told


def _is_value(word: str) -> bool:
    return (not word.startswith("-") or _is_negative(word)) and "=" not in word


def _tell(told: dict[str, Value], shorts: Mapping[str, str], name: str, text: str) -> None:
    key = normal(name)
    if name.startswith("-") and not name.startswith("--"):
        key = shorts.get(name.lstrip("-"), key)
    value = Value(plain(text), "command line", 0, SURE, "given on the command line")
    if key.startswith("no_") and text == "true":
        told[key.removeprefix("no_")] = Value(False, "command line", 0, SURE, "given on the command line")
    told[key] = value
    told.setdefault(key.rpartition(".")[2], value)


def _is_negative(word: str) -> bool:
    return word[:1] == "-" and word[1:2].isdigit()
