"""`anygpu catalog`: what GPUs cost where, by our own table and what the organisation changed about it."""

from typing import TYPE_CHECKING, Any

import click

from anygpu.cli import catalog_view as view
from anygpu.cli import table, words
from anygpu.cli.connection import json_option
from anygpu.cli.groups import Named, nearest
from anygpu.cli.output import emit, emit_json
from anygpu.errors import InvalidSpec, NotFound, Problem, TooLarge

if TYPE_CHECKING:
    from pathlib import Path

    from anygpu.plan.catalog import Candidate, Candidates, Catalog, Layers, Row, Terms
    from anygpu.spec.model import Resources

SHOWN = 30
MOST_BYTES = 64 * 1024 * 1024
TIMEOUT_S = 30.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@click.group(name="catalog", cls=Named)
def command() -> None:
    """What GPUs cost where, as of when, and who says so."""


@command.command(name="show")
@click.option("--gpu", default="", help="`a100`, `H100:8`, `24GB`: the kind, how many, or the memory.")
@click.option("--cloud", "clouds", multiple=True, help="Only these: `gcp`, `ec2`, or `aws` for all of it.")
@click.option("--region", "regions", multiple=True, help="Only these regions; each is then listed.")
@click.option("--spot/--on-demand", default=None, help="Only one of the markets.")
@click.option("--sort", default="price", type=click.Choice(["price", "gpu-price", "cloud", "gpu", "age"]))
@click.option("--limit", default=SHOWN, help=f"How many lines; 0 shows all. Default {SHOWN}.")
@json_option
def show(
    gpu: str,
    clouds: tuple[str, ...],
    regions: tuple[str, ...],
    spot: bool | None,
    sort: str,
    limit: int,
    as_json: bool,
) -> None:
    """Offers that fit, cheapest first; of a machine's regions the cheapest, unless regions are named."""
    catalog, need = opened(), _need(gpu)
    found = catalog.candidates(need, clouds=_clouds(clouds), regions=regions, spot=spot)
    listed = _sorted(found if regions else found.one_per_shape(), sort)
    shown = listed[: limit or None]
    if as_json:
        emit_json({"total": len(listed), "offers": [_plain(each) for each in shown]})
        return
    emit(table.table(view.HEADING, view.cells(shown, found)) if shown else [view.nothing(gpu)])
    emit(["", *view.footer(catalog, shown, len(listed))] if shown else [])


@command.command(name="clouds")
@json_option
def clouds(as_json: bool) -> None:
    """How each place bills, and what is known of its prices."""
    from anygpu.plan.catalog import terms

    catalog = opened()
    if as_json:
        emit_json([_plain_terms(each, catalog) for each in terms().values()])
        return
    emit(table.table(view.TERMS_HEADING, [view.terms_cells(each, catalog) for each in terms().values()]))
    own = sorted(catalog.policy.own_microusd_per_hour.items())
    emit(["", *(f"{name}: {words.money(price)} an hour (yours)" for name, price in own)] if own else [])


@command.command(name="import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--cloud", default="", help="Whose list it is; needed for lists in SkyPilot's columns.")
@click.option(
    "--as-of", "recorded", default="", help="The day of the prices, YYYY-MM-DD; else that of the file."
)
@json_option
def import_list(file: str, cloud: str, recorded: str, as_json: bool) -> None:
    """Take a price list (SkyPilot's columns, or ours) for one cloud: whole, or not at all. Its prices then win."""
    from pathlib import Path

    from anygpu.plan.catalog.rows import lines_of

    path = Path(file)
    day = _day(recorded) if recorded else _day_of(path)
    rows, left_out = _read(lines_of(path), path.name, cloud, day)
    for name, its in _by_cloud(rows).items():
        _layers().keep_import(name, its)
    _say("imported", {name: len(its) for name, its in _by_cloud(rows).items()}, left_out, as_json)


@command.command(name="update")
@click.argument("source")
@json_option
def update(source: str, as_json: bool) -> None:
    """Take a newer table from SOURCE, a file or an https address. Imports and your own edits stay as they are."""
    from anygpu.plan.catalog.rows import read

    rows = read(_lines(source), source.rpartition("/")[2])
    if not rows:
        raise InvalidSpec([Problem("", "", "has no prices; the table is as it was", source=source)])
    _layers().keep_update(rows)
    _say("updated", {name: len(its) for name, its in _by_cloud(rows).items()}, {}, as_json)


def opened() -> "Catalog":
    from datetime import UTC, datetime

    from anygpu import settings
    from anygpu.plan.catalog import Policy, load

    wanted = settings.load().catalog
    policy = Policy.parsed(discounts=wanted.discounts, credits=wanted.credits, own_prices=wanted.own_prices)
    today = datetime.now(UTC).date()
    return load(_layers(), today=today, policy=policy, stale_days=wanted.stale_days)


def _layers() -> "Layers":
    from anygpu import settings
    from anygpu.plan.catalog import Layers

    return Layers(
        folder=settings.load().state / "catalog", edits=settings.config_path().with_name("catalog.csv")
    )


def _need(gpu: str) -> "Resources":
    from pydantic import ValidationError

    from anygpu.plan import gpus
    from anygpu.spec.model import Resources

    try:
        need = Resources.model_validate({"gpu": gpu} if gpu else {})
    except ValidationError as error:
        raise click.UsageError(f"--gpu {gpu!r}: {error.errors()[0]['msg']}.") from None
    kind = need.gpu.kind if need.gpu else None
    if kind and not gpus.known(kind) and gpus.nearest(kind):
        raise click.UsageError(f"Nobody knows a GPU {kind!r}. Did you mean {gpus.nearest(kind)!r}?")
    return need


def _clouds(names: tuple[str, ...]) -> tuple[str, ...]:
    from anygpu.plan.catalog import clouds_named, terms

    for name in names:
        if not clouds_named(name):
            raise click.UsageError(f"There is no cloud {name!r}.{nearest(name, list(terms()))}")
    return tuple(cloud for name in names for cloud in clouds_named(name))


def _sorted(found: "Candidates", sort: str) -> "list[Candidate]":
    orders: dict[str, Any] = {
        "gpu-price": lambda each: each.price_microusd_per_hour / max(each.gpu_count, 1),
        "cloud": lambda each: (each.cloud, each.name),
        "gpu": lambda each: (each.gpu_kind, each.gpu_count),
        "age": lambda each: each.age_days,
    }
    return list(found) if sort == "price" else sorted(found, key=orders[sort])


def _plain(each: "Candidate") -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(each)


def _plain_terms(each: "Terms", catalog: "Catalog") -> dict[str, Any]:
    from dataclasses import asdict

    offers = len(catalog.candidates(clouds=(each.cloud,)))
    credit = catalog.policy.credit_microusd(each.cloud)
    return {**asdict(each), "owned": each.owned, "offers": offers, "credit_microusd": credit}


def _read(lines: list[str], name: str, cloud: str, recorded: str) -> "tuple[list[Row], dict[str, int]]":
    from anygpu.plan.catalog import rows, skypilot

    columns, _ = rows.table(lines)
    if not skypilot.recognised(columns):
        return rows.read(lines, name), {}
    if not cloud:
        raise click.UsageError("The list does not say whose it is. Name it with --cloud.")
    whose = _clouds((cloud,))[0]
    found = skypilot.read(lines, name, cloud=whose, source=f"import of {name}", recorded=recorded)
    return [*found.rows], dict(found.left_out)


def _by_cloud(rows: "list[Row]") -> "dict[str, list[Row]]":
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.cloud, []).append(row)
    return found


def _day_of(path: "Path") -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()


def _day(text: str) -> str:
    from datetime import date

    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise click.UsageError(f"--as-of {text!r} is not a day like 2026-08-22.") from None


def _lines(source: str) -> list[str]:
    """Of a file or of an address; nothing is asked that the user did not name."""
    from pathlib import Path

    from anygpu.plan.catalog.rows import lines_of

    if "://" in source:
        return _fetched(source)
    if not Path(source).is_file():
        raise NotFound(f"There is no file {source}.", hint="Name a file or an https address.")
    return lines_of(Path(source))


def _fetched(address: str) -> list[str]:
    from urllib.parse import urlsplit
    from urllib.request import urlopen

    where = urlsplit(address)
    if where.scheme != "https" and (where.scheme != "http" or where.hostname not in LOOPBACK):
        raise click.UsageError("Prices are taken over https only.")
    try:
        with urlopen(address, timeout=TIMEOUT_S) as answer:
            content: bytes = answer.read(MOST_BYTES + 1)
    except OSError as error:
        raise NotFound(f"{address}: {error}", hint="The table is as it was.") from error
    if len(content) > MOST_BYTES:
        raise TooLarge(f"{address} is larger than {words.size(MOST_BYTES)}", hint="The table is as it was.")
    return content.decode("utf-8", errors="replace").splitlines(keepends=True)


def _say(verb: str, taken: dict[str, int], left_out: dict[str, int], as_json: bool) -> None:
    if as_json:
        emit_json({verb: taken, "left_out": left_out})
        return
    emit(f"{verb} {words.plural(count, 'offer')} of {cloud}" for cloud, count in taken.items())
    emit(f"left out {words.plural(count, 'line')}: {reason}" for reason, count in left_out.items())
