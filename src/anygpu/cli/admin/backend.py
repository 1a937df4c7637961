"""`anygpu backend`: configure and check the backends that run jobs. Credentials never appear on the command line."""

import sys
from typing import Any

import click

from anygpu.cli import exits
from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.root import SuggestingGroup, suggestion
from anygpu.cli.terminal import formatting, output
from anygpu.cli.terminal.output import emit, emit_json

CREDENTIAL_SOURCES = {
    "vault": "vault",
    "settings": "settings file",
    "ambient": "ambient",
    "none": "none",
}


@click.group(name="backend", cls=SuggestingGroup)
def backend_command() -> None:
    """Places to rent or use machines: clouds, boxes of your own."""


@backend_command.command(name="add")
@click.argument("name")
@click.option("--kind", default="", help="What it is (`anygpu backend kinds`).")
@click.option(
    "--set", "settings", multiple=True, metavar="OPTION=VALUE", help="An option of its kind; repeat."
)
@click.option(
    "--credential",
    "credentials",
    multiple=True,
    metavar="NAME[=-|=@FILE]",
    help="A credential: asked for unseen, or from standard input (=-) or a file; repeat. Without any, the "
    "server's environment is used.",
)
@click.option("--change", is_flag=True, help="Change one that is there; what is not named stays as it is.")
@json_option
@context_option
def add_backend(
    name: str,
    kind: str,
    settings: tuple[str, ...],
    credentials: tuple[str, ...],
    change: bool,
    as_json: bool,
    context_name: str,
) -> None:
    """Configure a backend called NAME. It can be used at once."""
    options = dict(_parse_setting(text) for text in settings)
    given = dict(_read_credential(text) for text in credentials)
    backends = connect(context_name, start=True).backends
    if change:
        kind, options = _merge_options(_find_backend(name, backends.list()["backends"]), kind, options)
    elif not kind:
        raise click.UsageError("Say what it is with --kind; `anygpu backend kinds` lists them.")
    made = backends.add(name, kind, options, given, replace=change)
    if as_json:
        emit_json(made)
        return
    said = f"{name} is there: {kind}, credentials: {CREDENTIAL_SOURCES[made['credentials']]}"
    emit([said, *_unavailable_lines(made)])
    if made["state"] != "failed":
        emit([f"`anygpu backend check {name}` tries it"])


@backend_command.command(name="ls")
@json_option
@context_option
def list_backends(as_json: bool, context_name: str) -> None:
    """Every backend jobs can run on, and where its credentials come from."""
    found = connect(context_name).backends.list()
    if as_json:
        emit_json(found)
        return
    rows = [_backend_row(each) for each in found["backends"]]
    emit(output.table(("NAME", "KIND", "STATE", "CREDENTIALS", "FROM", "OPTIONS"), rows))


@backend_command.command(name="kinds")
@click.argument("kind", default="")
@json_option
@context_option
def list_kinds(kind: str, as_json: bool, context_name: str) -> None:
    """The kinds there are; with KIND, everything it can be told."""
    found = connect(context_name, start=True).backends.kinds()["kinds"]
    if kind:
        found = [_find_kind(kind, found)]
    if as_json:
        emit_json({"kinds": found})
    elif kind:
        emit([found[0]["about"], "", *_option_table(found[0]["options"])])
    else:
        emit(output.table(("KIND", "CREDENTIALS", "WHAT"), [_kind_row(each) for each in found]))


@backend_command.command(name="check")
@click.argument("name", default="")
@json_option
@context_option
@click.pass_context
def check_backends(context: click.Context, /, name: str, as_json: bool, context_name: str) -> None:
    """Try NAME, or every backend: are its credentials valid, what do they allow, what does it offer?"""
    backends = connect(context_name).backends
    names = [name] if name else [each["name"] for each in backends.list()["backends"]]
    found = [backends.check(each) for each in names]
    if as_json:
        emit_json({"checks": found})
    else:
        emit(line for each in found for line in check_lines(each, colour=output.use_colour()))
    context.exit(exits.OK if all(each["valid"] for each in found) else exits.FAILED)


@backend_command.command(name="rm")
@click.argument("name")
@click.option(
    "--force", is_flag=True, help="Even while jobs have machines there, which may then go on billing."
)
@json_option
@context_option
def remove_backend(name: str, force: bool, as_json: bool, context_name: str) -> None:
    """Forget NAME and its credentials."""
    gone = connect(context_name).backends.remove(name, force=force)
    if as_json:
        emit_json(gone)
        return
    left = gone["jobs"]
    emit([f"removed {name}"])
    if left:
        emit([f"{formatting.plural(len(left), 'job')} had machines there: {', '.join(left)}"])


@backend_command.command(name="rotate")
@click.option(
    "--same-key", is_flag=True, help="With the key on top of the file, which was put there by hand."
)
@json_option
@context_option
def rotate_key(same_key: bool, as_json: bool, context_name: str) -> None:
    """Seal every credential and every secret of the server anew, with a new key."""
    done = connect(context_name).backends.rotate(new_key=not same_key)
    if as_json:
        emit_json(done)
        return
    emit([f"sealed anew: {done['sealed']}; the lines under the first of the server's secrets.key can go"])
    if done["unopenable"]:
        emit([f"no key opens {formatting.plural(done['unopenable'], 'value')}; store them again"])


def check_lines(found: dict[str, Any], *, colour: bool) -> list[str]:
    """One line for people, and what to know beside it under it."""
    state = output.paint_status("ok  " if found["valid"] else "fail", on=colour)
    offers, cheapest = found["offers"], found["cheapest_gpu"]
    facts = [
        found["quota"] and f"quota: {found['quota']}",
        found["balance_microusd"] is not None and f"balance: {formatting.money(found['balance_microusd'])}",
        found["valid"] and f"{formatting.plural(offers, 'offer')}{_cheapest_text(cheapest)}",
        found["refused"]
        and f"{formatting.plural(found['refused'], 'offer')} not allowed: {found['refused_why']}",
    ]
    return [
        f"{state}  {found['name']}  {found['why']}".rstrip(),
        *(f"      {fact}" for fact in facts if fact),
    ]


def _cheapest_text(gpu: dict[str, Any] | None) -> str:
    if gpu is None:
        return ", none with a GPU"
    count = f"{gpu['gpus']}x " if gpu["gpus"] > 1 else ""
    where = f" in {gpu['region']}" if gpu["region"] else ""
    price = f"{formatting.money(gpu['price_microusd_per_hour'])}/h{' spot' if gpu['interruptible'] else ''}"
    return f", cheapest GPU {count}{gpu['gpu'] or '?'} ({gpu['name']}{where}) at {price}"


def _find_backend(name: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    for each in found:
        if each["name"] == name:
            return each
    raise click.UsageError(
        f"There is no backend {name!r}.{suggestion(name, [each['name'] for each in found])}"
    )


def _merge_options(known: dict[str, Any], kind: str, options: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """What it is afterwards; `--set option=` takes an option back to its default."""
    kept = known["options"] if kind in ("", known["kind"]) else {}
    merged = {key: value for key, value in {**kept, **options}.items() if value != ""}
    return kind or known["kind"], merged


def _backend_row(each: dict[str, Any]) -> tuple[str, ...]:
    options = " ".join(f"{name}={_option_text(value)}" for name, value in each["options"].items())
    state = each["state"] if not each["reason"] else f"{each['state']}: {each['reason']}"
    source = "the settings file" if each["source"] == "settings" else each["source"]
    return each["name"], each["kind"], state, CREDENTIAL_SOURCES[each["credentials"]], source, options or "-"


def _option_text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _unavailable_lines(made: dict[str, Any]) -> list[str]:
    return [f"it cannot be used yet: {made['reason']}"] if made["reason"] else []


def _kind_row(kind: dict[str, Any]) -> tuple[str, str, str]:
    secret = [option["name"] for option in kind["options"] if option["secret"]]
    return kind["name"], ", ".join(secret) or "-", kind["about"]


def _option_table(options: list[dict[str, Any]]) -> list[str]:
    rows = [(each["name"], each["type"], _default_text(each), each["about"]) for each in options]
    return output.table(("OPTION", "TYPE", "DEFAULT", "WHAT"), rows)


def _default_text(option: dict[str, Any]) -> str:
    if option["required"]:
        return "required"
    return _option_text(option["default"]) if option["default"] not in (None, "", [], False) else "-"


def _find_kind(kind: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    for each in found:
        if each["name"] == kind:
            return each
    raise click.UsageError(f"There is no kind {kind!r}.{suggestion(kind, [each['name'] for each in found])}")


def _parse_setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--set {text!r} is not OPTION=VALUE.")
    return name.strip(), value


def _read_credential(text: str) -> tuple[str, str]:
    """Never the value itself: others on this machine can read a command line."""
    name, equals, source = text.partition("=")
    if not equals:
        return name, _require_value(name, str(click.prompt(name, hide_input=True, err=True)))
    if source == "-":
        return name, _require_value(name, sys.stdin.readline())
    if source.startswith("@"):
        from pathlib import Path

        return name, _require_value(name, Path(source[1:]).expanduser().read_text())
    raise click.UsageError(
        f"A credential does not belong on the command line, where others can read it. Write `--credential {name}` "
        f"to be asked, `{name}=-` for standard input or `{name}=@FILE`."
    )


def _require_value(name: str, value: str) -> str:
    if not value.strip():
        raise click.UsageError(f"The credential {name} is empty.")
    return value.strip()
