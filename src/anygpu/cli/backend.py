"""`anygpu backend`: the places where machines can be rented or used. Credentials are never on the command line."""

import sys
from typing import Any

import click

from anygpu.cli import exits, paint, table, words
from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.groups import Named, nearest
from anygpu.cli.output import emit, emit_json

SOURCES = {
    "vault": "vault",
    "settings": "settings file",
    "ambient": "ambient",
    "none": "none",
}


@click.group(name="backend", cls=Named)
def command() -> None:
    """Places to rent or use machines: clouds, boxes of your own."""


@command.command(name="add")
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
def add(
    name: str,
    kind: str,
    settings: tuple[str, ...],
    credentials: tuple[str, ...],
    change: bool,
    as_json: bool,
    context_name: str,
) -> None:
    """Configure a backend called NAME. It can be used at once."""
    options = dict(_pair(text) for text in settings)
    given = dict(_credential(text) for text in credentials)
    backends = connect(context_name, start=True).backends
    if change:
        kind, options = _changed(_known(name, backends.list()["backends"]), kind, options)
    elif not kind:
        raise click.UsageError("Say what it is with --kind; `anygpu backend kinds` lists them.")
    made = backends.add(name, kind, options, given, replace=change)
    if as_json:
        emit_json(made)
        return
    said = f"{name} is there: {kind}, credentials: {SOURCES[made['credentials']]}"
    emit([said, *_not_open(made)])
    if made["state"] != "failed":
        emit([f"`anygpu backend check {name}` tries it"])


@command.command(name="ls")
@json_option
@context_option
def list_backends(as_json: bool, context_name: str) -> None:
    """Every backend jobs can run on, and where its credentials come from."""
    found = connect(context_name).backends.list()
    if as_json:
        emit_json(found)
        return
    rows = [_row(each) for each in found["backends"]]
    emit(table.table(("NAME", "KIND", "STATE", "CREDENTIALS", "FROM", "OPTIONS"), rows))


@command.command(name="kinds")
@click.argument("kind", default="")
@json_option
@context_option
def kinds(kind: str, as_json: bool, context_name: str) -> None:
    """The kinds there are; with KIND, everything it can be told."""
    found = connect(context_name, start=True).backends.kinds()["kinds"]
    if kind:
        found = [_named(kind, found)]
    if as_json:
        emit_json({"kinds": found})
    elif kind:
        emit([found[0]["about"], "", *_options(found[0]["options"])])
    else:
        emit(table.table(("KIND", "CREDENTIALS", "WHAT"), [_kind_row(each) for each in found]))


@command.command(name="check")
@click.argument("name", default="")
@json_option
@context_option
@click.pass_context
def check(context: click.Context, /, name: str, as_json: bool, context_name: str) -> None:
    """Try NAME, or every backend: are its credentials valid, what do they allow, what does it offer?"""
    backends = connect(context_name).backends
    names = [name] if name else [each["name"] for each in backends.list()["backends"]]
    found = [backends.check(each) for each in names]
    if as_json:
        emit_json({"checks": found})
    else:
        emit(line for each in found for line in check_lines(each, colour=paint.wanted()))
    context.exit(exits.OK if all(each["valid"] for each in found) else exits.FAILED)


@command.command(name="rm")
@click.argument("name")
@click.option(
    "--force", is_flag=True, help="Even while jobs have machines there, which may then go on billing."
)
@json_option
@context_option
def remove(name: str, force: bool, as_json: bool, context_name: str) -> None:
    """Forget NAME and its credentials."""
    gone = connect(context_name).backends.remove(name, force=force)
    if as_json:
        emit_json(gone)
        return
    left = gone["jobs"]
    emit([f"removed {name}"])
    if left:
        emit([f"{words.plural(len(left), 'job')} had machines there: {', '.join(left)}"])


@command.command(name="rotate")
@click.option(
    "--same-key", is_flag=True, help="With the key on top of the file, which was put there by hand."
)
@json_option
@context_option
def rotate(same_key: bool, as_json: bool, context_name: str) -> None:
    """Seal every credential and every secret of the server anew, with a new key."""
    done = connect(context_name).backends.rotate(new_key=not same_key)
    if as_json:
        emit_json(done)
        return
    emit([f"sealed anew: {done['sealed']}; the lines under the first of the server's secrets.key can go"])
    if done["unopenable"]:
        emit([f"no key opens {words.plural(done['unopenable'], 'value')}; store them again"])


def check_lines(found: dict[str, Any], *, colour: bool) -> list[str]:
    """One line for people, and what to know beside it under it."""
    state = paint.status("ok  " if found["valid"] else "fail", on=colour)
    offers, cheapest = found["offers"], found["cheapest_gpu"]
    facts = [
        found["quota"] and f"quota: {found['quota']}",
        found["balance_microusd"] is not None and f"balance: {words.money(found['balance_microusd'])}",
        found["valid"] and f"{words.plural(offers, 'offer')}{_cheapest(cheapest)}",
        found["refused"] and f"{words.plural(found['refused'], 'offer')} not allowed: {found['refused_why']}",
    ]
    return [
        f"{state}  {found['name']}  {found['why']}".rstrip(),
        *(f"      {fact}" for fact in facts if fact),
    ]


def _cheapest(gpu: dict[str, Any] | None) -> str:
    if gpu is None:
        return ", none with a GPU"
    count = f"{gpu['gpus']}x " if gpu["gpus"] > 1 else ""
    where = f" in {gpu['region']}" if gpu["region"] else ""
    price = f"{words.money(gpu['price_microusd_per_hour'])}/h{' spot' if gpu['interruptible'] else ''}"
    return f", cheapest GPU {count}{gpu['gpu'] or '?'} ({gpu['name']}{where}) at {price}"


def _known(name: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    for each in found:
        if each["name"] == name:
            return each
    raise click.UsageError(f"There is no backend {name!r}.{nearest(name, [each['name'] for each in found])}")


def _changed(known: dict[str, Any], kind: str, options: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """What it is afterwards; `--set option=` takes an option back to its default."""
    kept = known["options"] if kind in ("", known["kind"]) else {}
    merged = {key: value for key, value in {**kept, **options}.items() if value != ""}
    return kind or known["kind"], merged


def _row(each: dict[str, Any]) -> tuple[str, ...]:
    options = " ".join(f"{name}={_text(value)}" for name, value in each["options"].items())
    state = each["state"] if not each["reason"] else f"{each['state']}: {each['reason']}"
    source = "the settings file" if each["source"] == "settings" else each["source"]
    return each["name"], each["kind"], state, SOURCES[each["credentials"]], source, options or "-"


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _not_open(made: dict[str, Any]) -> list[str]:
    return [f"it cannot be used yet: {made['reason']}"] if made["reason"] else []


def _kind_row(kind: dict[str, Any]) -> tuple[str, str, str]:
    secret = [option["name"] for option in kind["options"] if option["secret"]]
    return kind["name"], ", ".join(secret) or "-", kind["about"]


def _options(options: list[dict[str, Any]]) -> list[str]:
    rows = [(each["name"], each["type"], _default(each), each["about"]) for each in options]
    return table.table(("OPTION", "TYPE", "DEFAULT", "WHAT"), rows)


def _default(option: dict[str, Any]) -> str:
    if option["required"]:
        return "required"
    return _text(option["default"]) if option["default"] not in (None, "", [], False) else "-"


def _named(kind: str, found: list[dict[str, Any]]) -> dict[str, Any]:
    for each in found:
        if each["name"] == kind:
            return each
    raise click.UsageError(f"There is no kind {kind!r}.{nearest(kind, [each['name'] for each in found])}")


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(f"--set {text!r} is not OPTION=VALUE.")
    return name.strip(), value


def _credential(text: str) -> tuple[str, str]:
    """Never the value itself: others on this machine can read a command line."""
    name, equals, source = text.partition("=")
    if not equals:
        return name, _required(name, str(click.prompt(name, hide_input=True, err=True)))
    if source == "-":
        return name, _required(name, sys.stdin.readline())
    if source.startswith("@"):
        from pathlib import Path

        return name, _required(name, Path(source[1:]).expanduser().read_text())
    raise click.UsageError(
        f"A credential does not belong on the command line, where others can read it. Write `--credential {name}` "
        f"to be asked, `{name}=-` for standard input or `{name}=@FILE`."
    )


def _required(name: str, value: str) -> str:
    if not value.strip():
        raise click.UsageError(f"The credential {name} is empty.")
    return value.strip()
