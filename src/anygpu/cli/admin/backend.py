"""`anygpu backend`: configure and check the backends that run jobs. Credentials never appear on the command line."""

import sys
from typing import Any

import click

from anygpu.cli import exits
from anygpu.cli.connection import connect, context_option, json_option
from anygpu.cli.root import SuggestingGroup, no_such
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
    """Configure backends: cloud accounts, clusters and your own machines."""


@backend_command.command(name="add")
@click.argument("name")
@click.option("--kind", default="", help="Kind of backend; see `anygpu backend kinds`.")
@click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="OPTION=VALUE",
    help="Option of this kind of backend. Repeatable.",
)
@click.option(
    "--credential",
    "credentials",
    multiple=True,
    metavar="NAME[=-|=@FILE]",
    help="Credential to store. NAME prompts for it, NAME=- reads standard input, NAME=@FILE reads a file. "
    "Repeatable. Default: the server's environment variables.",
)
@click.option(
    "--change",
    is_flag=True,
    help="Change an existing backend. Options and credentials that are not given stay as they are.",
)
@json_option
@context_option
@click.pass_context
def add_backend(
    context: click.Context,
    /,
    name: str,
    kind: str,
    settings: tuple[str, ...],
    credentials: tuple[str, ...],
    change: bool,
    as_json: bool,
    context_name: str,
) -> None:
    """Add a backend called NAME. Jobs can use the backend immediately."""
    options = dict(_parse_setting(text) for text in settings)
    secrets = dict(_read_credential(text) for text in credentials)
    backends = connect(context_name, start=True).backends
    if change:
        kind, options = _merge_options(_find_backend(name, backends.list()["backends"]), kind, options)
    elif not kind:
        raise click.UsageError("Missing --kind. `anygpu backend kinds` lists the kinds.")
    made = backends.add(name, kind, options, secrets, replace=change)
    code = exits.FAILED if made["state"] == "failed" else exits.OK
    if as_json:
        emit_json(made)
        context.exit(code)
    verb, source = "Changed" if change else "Added", CREDENTIAL_SOURCES[made["credentials"]]
    emit([f"{verb} backend {name} ({kind}, credentials: {source}).", *_unavailable_lines(made)])
    if code == exits.OK:
        emit([f"Test it with `anygpu backend check {name}`."])
    context.exit(code)


@backend_command.command(name="ls")
@json_option
@context_option
def list_backends(as_json: bool, context_name: str) -> None:
    """List the backends, where their credentials come from, and the last errors of their providers."""
    listed = connect(context_name).backends.list()
    if as_json:
        emit_json(listed)
        return
    rows = [_backend_row(each) for each in listed["backends"]]
    emit(output.table(("NAME", "KIND", "STATE", "CREDENTIALS", "FROM", "OPTIONS"), rows))
    emit(line for each in listed["backends"] for line in problem_lines(each, colour=output.use_colour()))


@backend_command.command(name="kinds")
@click.argument("kind", default="")
@json_option
@context_option
def list_kinds(kind: str, as_json: bool, context_name: str) -> None:
    """List the kinds of backends; with KIND, list its options."""
    kinds = connect(context_name, start=True).backends.kinds()["kinds"]
    if kind:
        kinds = [_find_kind(kind, kinds)]
    if as_json:
        emit_json({"kinds": kinds})
    elif kind:
        emit([kinds[0]["about"], "", *_option_table(kinds[0]["options"])])
    else:
        emit(output.table(("KIND", "CREDENTIALS", "DESCRIPTION"), [_kind_row(each) for each in kinds]))


@backend_command.command(name="check")
@click.argument("name", default="")
@json_option
@context_option
@click.pass_context
def check_backends(context: click.Context, /, name: str, as_json: bool, context_name: str) -> None:
    """Check the credentials, quota and offers of backend NAME (default: all backends)."""
    backends = connect(context_name).backends
    names = [name] if name else [each["name"] for each in backends.list()["backends"]]
    context.exit(print_checks([backends.check(each) for each in names], as_json))


def print_checks(checks: list[dict[str, Any]], as_json: bool) -> int:
    """Print the results of checking backends. Return the exit code: FAILED if one is not usable."""
    if as_json:
        emit_json({"checks": checks})
    else:
        emit(line for each in checks for line in check_lines(each, colour=output.use_colour()))
    return exits.OK if all(each["valid"] for each in checks) else exits.FAILED


@backend_command.command(name="rm")
@click.argument("name")
@click.option(
    "--force",
    is_flag=True,
    help="Remove the backend even if jobs have machines there. These machines may continue to cost money.",
)
@json_option
@context_option
def remove_backend(name: str, force: bool, as_json: bool, context_name: str) -> None:
    """Remove backend NAME and its credentials."""
    removed = connect(context_name).backends.remove(name, force=force)
    if as_json:
        emit_json(removed)
        return
    jobs = removed["jobs"]
    emit([f"Removed backend {name}."])
    if jobs:
        emit(
            [
                f"{formatting.plural(len(jobs), 'job')} still had machines there, which may continue to cost "
                f"money: {', '.join(jobs)}."
            ]
        )


@backend_command.command(name="rotate")
@click.option(
    "--same-key",
    is_flag=True,
    help="Encrypt with the first key in the server's secrets.key instead of a new key.",
)
@json_option
@context_option
def rotate_key(same_key: bool, as_json: bool, context_name: str) -> None:
    """Encrypt all credentials and secrets with a new key."""
    result = connect(context_name).backends.rotate(new_key=not same_key)
    if as_json:
        emit_json(result)
        return
    emit([f"Encrypted {formatting.plural(result['sealed'], 'stored value')} again."])
    emit(["You can now delete all lines except the first from the server's file secrets.key."])
    if result["unopenable"]:
        emit(
            [
                f"{formatting.plural(result['unopenable'], 'value')} cannot be decrypted with any key in "
                "secrets.key. Store them again."
            ]
        )


def check_lines(check: dict[str, Any], *, colour: bool) -> list[str]:
    """Return the lines about one backend check: the result, then quota, balance and offers."""
    state = output.paint_status("ok  " if check["valid"] else "fail", on=colour)
    offers, cheapest = check["offers"], check["cheapest_gpu"]
    facts = [
        check["quota"] and f"quota: {check['quota']}",
        check["balance_microusd"] is not None and f"balance: {formatting.money(check['balance_microusd'])}",
        check["valid"] and f"{formatting.plural(offers, 'offer')}{_cheapest_text(cheapest)}",
        check["refused"]
        and f"{formatting.plural(check['refused'], 'offer')} that this backend does not allow: "
        f"{check['refused_why']}",
    ]
    why, *more = check["why"].splitlines() or [""]
    return [
        f"{state}  {check['name']}  {why}".rstrip(),
        *(f"      {line}" for line in more),
        *(f"      {fact}" for fact in facts if fact),
    ]


FAILED_REQUESTS = {"account": "account check", "offers": "listing offers", "launch": "last launch"}


def problem_lines(backend: dict[str, Any], *, colour: bool) -> list[str]:
    """Return one line for each kind of request to the backend that failed last."""
    return [
        output.paint(
            f"{backend['name']}: {FAILED_REQUESTS[each['request']]} failed {formatting.age(each['at'])}: "
            f"{each['message']}",
            "red",
            on=colour,
        )
        for each in backend["health"]["problems"]
    ]


def _cheapest_text(gpu: dict[str, Any] | None) -> str:
    if gpu is None:
        return ", none with a GPU"
    count = f"{gpu['gpus']}x " if gpu["gpus"] > 1 else ""
    where = f" in {gpu['region']}" if gpu["region"] else ""
    price = f"{formatting.money(gpu['price_microusd_per_hour'])}/h{' spot' if gpu['interruptible'] else ''}"
    return f", cheapest GPU {count}{gpu['gpu'] or '?'} ({gpu['name']}{where}) at {price}"


def _find_backend(name: str, backends: list[dict[str, Any]]) -> dict[str, Any]:
    for each in backends:
        if each["name"] == name:
            return each
    raise click.UsageError(no_such("backend", name, [each["name"] for each in backends]))


def _merge_options(current: dict[str, Any], kind: str, options: dict[str, str]) -> tuple[str, dict[str, Any]]:
    """Return the kind and options of a backend after the change. `--set option=` resets an option to its default."""
    kept = current["options"] if kind in ("", current["kind"]) else {}
    merged = {key: value for key, value in {**kept, **options}.items() if value != ""}
    return kind or current["kind"], merged


def _backend_row(each: dict[str, Any]) -> tuple[str, ...]:
    options = " ".join(f"{name}={_option_text(value)}" for name, value in each["options"].items())
    state = each["state"] if not each["reason"] else f"{each['state']}: {each['reason']}"
    source = "the settings file" if each["source"] == "settings" else each["source"]
    return each["name"], each["kind"], state, CREDENTIAL_SOURCES[each["credentials"]], source, options or "-"


def _option_text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _unavailable_lines(made: dict[str, Any]) -> list[str]:
    return [f"The backend cannot be used yet: {made['reason']}"] if made["reason"] else []


def _kind_row(kind: dict[str, Any]) -> tuple[str, str, str]:
    secret = [option["name"] for option in kind["options"] if option["secret"]]
    return kind["name"], ", ".join(secret) or "-", kind["about"]


def _option_table(options: list[dict[str, Any]]) -> list[str]:
    rows = [(each["name"], each["type"], _default_text(each), each["about"]) for each in options]
    return output.table(("OPTION", "TYPE", "DEFAULT", "DESCRIPTION"), rows)


def _default_text(option: dict[str, Any]) -> str:
    if option["required"]:
        return "required"
    return _option_text(option["default"]) if option["default"] not in (None, "", [], False) else "-"


def _find_kind(kind: str, kinds: list[dict[str, Any]]) -> dict[str, Any]:
    for each in kinds:
        if each["name"] == kind:
            return each
    raise click.UsageError(no_such("kind", kind, [each["name"] for each in kinds]))


def _parse_setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.UsageError(
            f"--set {text!r} does not set an option. Write OPTION=VALUE, such as `--set regions=us-east-1`."
        )
    return name.strip(), value


def _read_credential(text: str) -> tuple[str, str]:
    """Read a credential from a prompt, standard input or a file.

    Credentials are never read from the command line, because other users of the computer can see it.
    """
    name, equals, source = text.partition("=")
    if not equals:
        return name, _require_value(name, str(click.prompt(name, hide_input=True, err=True)))
    if source == "-":
        return name, _require_value(name, sys.stdin.readline())
    if source.startswith("@"):
        from pathlib import Path

        return name, _require_value(name, Path(source[1:]).expanduser().read_text())
    raise click.UsageError(
        f"Other users can read the command line, so do not put a credential there. Use `--credential {name}` "
        f"for a prompt, `{name}=-` for standard input or `{name}=@FILE` for a file."
    )


def _require_value(name: str, value: str) -> str:
    if not value.strip():
        raise click.UsageError(f"The credential {name} is empty. Run the command again and enter its value.")
    return value.strip()
