"""Collect the script's settings from configuration files, parser options, presets and the command line.

A preset is an entry of a dictionary of settings that the code selects by name, as in `SIZES[args.size]`.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from anygpu.plan.analyse.code.config_files import ConfigValue
from anygpu.plan.analyse.code.syntax import CallSite, SyntaxFacts, normalise_name
from anygpu.plan.analyse.code.values import PlainValue, ScriptSettings, Value, parse_word
from anygpu.plan.analyse.findings import LIKELY, SURE

MAX_LOOKUPS = 200


def preset_entries(facts: SyntaxFacts) -> set[int]:
    """Return the ids of the syntax nodes of all presets.

    Their settings apply only if the preset is selected.
    """
    tables = {
        id(table): table for node, _ in facts.lookups if (table := _preset_table(facts, node)) is not None
    }
    return {id(entry) for table in tables.values() for entry in table.values if _is_settings(entry)}


def apply_presets(facts: SyntaxFacts, settings: ScriptSettings) -> None:
    """Add the settings of the selected presets to the defaults of options."""
    for node, context in facts.lookups[:MAX_LOOKUPS]:
        table = _preset_table(facts, node)
        picked = settings.evaluate_text(node.slice) if table is not None else None
        entry = _preset_entry(table, str(picked.value)) if table is not None and picked is not None else None
        for name, value in _entry_settings(entry):
            finding = settings.evaluate(value)
            if picked is not None and finding is not None:
                because = f"from the preset {picked.value}"
                told = Value(finding.value, context.file, value.lineno, LIKELY, because)
                settings.option_defaults.setdefault(normalise_name(name), told)


def _preset_table(facts: SyntaxFacts, node: ast.Subscript) -> ast.Dict | None:
    """Return the dictionary that a lookup such as `SIZES[args.size]` reads; None if it is unknown."""
    if isinstance(node.value, ast.Name):
        bound = facts.bindings.get(normalise_name(node.value.id), ())
        return next((b.node for b in bound if isinstance(b.node, ast.Dict)), None)
    return node.value if isinstance(node.value, ast.Dict) else None


def _preset_entry(table: ast.Dict, name: str) -> ast.expr | None:
    pairs = zip(table.keys, table.values, strict=True)
    named = (v for k, v in pairs if isinstance(k, ast.Constant) and k.value == name and _is_settings(v))
    return next(named, None)


def _is_settings(node: ast.expr) -> bool:
    named = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict"
    return named or isinstance(node, ast.Dict)


def _entry_settings(entry: ast.expr | None) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(entry, ast.Call):
        yield from ((k.arg, k.value) for k in entry.keywords if k.arg)
    elif isinstance(entry, ast.Dict):
        pairs = zip(entry.keys, entry.values, strict=True)
        yield from ((str(k.value), v) for k, v in pairs if isinstance(k, ast.Constant))


_OPTION_CALLS = ("add_argument", "add_arg", "option", "Option", "argument", "arg")
_FLAG_CALLS = (
    "DEFINE_integer",
    "DEFINE_float",
    "DEFINE_string",
    "DEFINE_bool",
    "DEFINE_boolean",
    "DEFINE_enum",
)


def collect_settings(
    facts: SyntaxFacts, args: Sequence[str], configs: Iterable[ConfigValue]
) -> ScriptSettings:
    """Collect the settings of a script from `configs`, parser options, presets and `args`."""
    settings = ScriptSettings(facts)
    for leaf in configs:
        told = Value(leaf.value, leaf.file, leaf.line, SURE, "in the configuration")
        path = normalise_name(leaf.path)
        builds_on = path in settings.configs and settings.configs[path].file != leaf.file
        if builds_on and leaf.file.endswith(".py"):
            continue  # a value from a base file is overridden
        settings.configs[path] = told
        settings.configs.setdefault(path.rpartition(".")[2], told)
    aside = preset_entries(facts)
    for call in facts.calls:
        if id(call.node) in aside:
            continue
        if call.short_name in _OPTION_CALLS and _is_option(call):
            _add_option(call, settings)
        elif call.short_name in _FLAG_CALLS:
            _add_flag(call, settings)
        elif call.short_name in ("set_defaults", "dict", "Namespace", "EasyDict", "Box", "edict"):
            _add_keywords(call, settings)
    settings.command_line = _parse_command_line(args, settings)
    settings.clear_caches()
    apply_presets(facts, settings)
    settings.clear_caches()
    return settings


def _is_option(call: CallSite) -> bool:
    first = call.node.args[0] if call.node.args else None
    return isinstance(first, ast.Constant) and isinstance(first.value, str)


def _add_option(call: CallSite, settings: ScriptSettings) -> None:
    words = [a.value for a in call.node.args if isinstance(a, ast.Constant) and isinstance(a.value, str)]
    longs = [word.partition("/")[0] for word in words if word.startswith("--")]
    dest = settings.evaluate_text(call.argument("dest"))
    names = [str(dest.value)] if dest else (longs or [word for word in words if not word.startswith("-")])
    if call.short_name == "add_argument" and words[:1] and not words[0].startswith("-"):
        settings.positionals.append(normalise_name(words[0]))
    settings.option_names.append({normalise_name(name) for name in [*names, *longs]})
    action = settings.evaluate_text(call.argument("action"))
    if action is not None and str(action.value).startswith("store_"):
        settings.flags.update(normalise_name(name) for name in [*names, *longs])
    for name in [*names, *longs]:
        for short in (word for word in words if word.startswith("-") and not word.startswith("--")):
            settings.short_options[short.lstrip("-")] = normalise_name(names[0] if names else name)
        value = _option_default(call, settings)
        if value is not None:
            settings.option_defaults.setdefault(normalise_name(name), value)
        elif not call.has("default") and call.short_name == "add_argument":
            settings.without_default.add(normalise_name(name))


def _option_default(call: CallSite, settings: ScriptSettings) -> Value | None:
    action = settings.evaluate_text(call.argument("action"))
    node = call.argument("default")
    if node is None and (call.has("is_flag") or (action is not None and action.value == "store_true")):
        return Value(False, call.file, call.line, LIKELY, "the option's default")
    if node is None and action is not None and action.value == "store_false":
        return Value(True, call.file, call.line, LIKELY, "the option's default")
    finding = settings.evaluate(node)
    if finding is None:
        return None
    return Value(_convert_default(call, finding.value), call.file, call.line, LIKELY, "the option's default")


def _convert_default(call: CallSite, value: PlainValue) -> PlainValue:
    kind = call.argument("type")
    numeric = isinstance(kind, ast.Name) and kind.id in ("int", "float")
    return parse_word(value) if numeric and isinstance(value, str) else value


def _add_flag(call: CallSite, settings: ScriptSettings) -> None:
    name = settings.evaluate_text(call.argument("name", position=0))
    default = settings.evaluate(call.argument("default", position=1))
    if name is not None and default is not None:
        told = Value(default.value, call.file, call.line, LIKELY, "the flag's default")
        settings.option_defaults.setdefault(normalise_name(str(name.value)), told)


def _add_keywords(call: CallSite, settings: ScriptSettings) -> None:
    for keyword in call.node.keywords:
        finding = settings.evaluate(keyword.value) if keyword.arg else None
        if keyword.arg and finding is not None and finding.value is not None:
            told = Value(finding.value, call.file, finding.line, LIKELY, "written in the code")
            settings.option_defaults.setdefault(normalise_name(keyword.arg), told)


def _parse_command_line(args: Sequence[str], settings: ScriptSettings) -> dict[str, Value]:
    """Parse `--name value`, `--name=value`, `name=value`, `-b 8`, bare flags and positional arguments."""
    told: dict[str, Value] = {}
    candidates, consumed = list(settings.positionals), -1
    for at, word in enumerate(args):
        name, equals, value = word.partition("=")
        is_flag = word.startswith("-") and not _is_negative(word)
        follows = args[at + 1] if at + 1 < len(args) else "-"
        if at == consumed:
            continue
        if not is_flag and not equals:
            if candidates:
                _set_option(told, {}, candidates.pop(0), word)
            continue
        takes = is_flag and not equals and _is_value(follows) and normalise_name(name) not in settings.flags
        consumed = at + 1 if takes else consumed
        _set_option(
            told, settings.short_options, name.lstrip("+~"), value if equals else follows if takes else "true"
        )
    for names in settings.option_names:
        given_value = next((told[name] for name in names if name in told), None)
        told.update({name: given_value for name in names if given_value is not None and name not in told})
    return told


def _is_value(word: str) -> bool:
    return (not word.startswith("-") or _is_negative(word)) and "=" not in word


def _set_option(told: dict[str, Value], shorts: Mapping[str, str], name: str, text: str) -> None:
    key = normalise_name(name)
    if name.startswith("-") and not name.startswith("--"):
        key = shorts.get(name.lstrip("-"), key)
    value = Value(parse_word(text), "command line", 0, SURE, "given on the command line")
    if key.startswith("no_") and text == "true":
        told[key.removeprefix("no_")] = Value(False, "command line", 0, SURE, "given on the command line")
    told[key] = value
    told.setdefault(key.rpartition(".")[2], value)


def _is_negative(word: str) -> bool:
    return word[:1] == "-" and word[1:2].isdigit()
