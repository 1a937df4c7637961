"""`anygpu catalog`: show and update the table of GPU prices."""

from typing import TYPE_CHECKING, Any

import click

from anygpu.cli.connection import json_option
from anygpu.cli.root import SuggestingGroup, no_such
from anygpu.cli.terminal import formatting, output
from anygpu.cli.terminal.output import emit, emit_json
from anygpu.errors import InvalidSpec, NotFound, Problem, TooLarge, describe_error

if TYPE_CHECKING:
    from pathlib import Path

    from anygpu.plan.catalog import Catalog, CatalogLayers, CatalogOffer, CatalogOffers, CloudTerms, PriceRow
    from anygpu.spec.sections import Resources

OFFER_HEADING = (
    "CLOUD",
    "MACHINE",
    "GPU",
    "GIB",
    "CPUS",
    "RAM",
    "REGION",
    "MARKET",
    "$/H",
    "$/GPU/H",
    "AS OF",
)
CLOUD_HEADING = ("CLOUD", "BILLED BY", "AT LEAST", "SETUP", "$/GIB OUT", "LONGEST RUN", "DEDICATED", "PRICES")


def offer_rows(shown: "list[CatalogOffer]", offers: "CatalogOffers") -> list[tuple[str, ...]]:
    regions = offers.region_counts()
    return [_offer_row(each, regions[each.cloud, each.name, each.interruptible]) for each in shown]


def _offer_row(each: "CatalogOffer", regions: int) -> tuple[str, ...]:
    others = f" +{regions - 1}" if regions > 1 else ""
    return (
        each.cloud,
        each.name,
        f"{each.gpu_count}x {each.gpu_kind}",
        f"{each.gpu_memory_gib:g}" if each.gpu_memory_gib else "-",
        f"{each.cpus:g}",
        f"{each.memory_gib:g}",
        (each.region or "any") + others,
        "spot" if each.interruptible else "on demand",
        _dollars(each.price_microusd_per_hour),
        _dollars(each.price_microusd_per_hour // max(each.gpu_count, 1)),
        each.recorded + (" old" if each.stale else ""),
    )


def offer_footer(catalog: "Catalog", shown: "list[CatalogOffer]", total: int) -> list[str]:
    stale = sum(each.stale for each in shown)
    lines = [f"{len(shown)} of {formatting.plural(total, 'offer')} shown"]
    if stale:
        lines.append(
            f"Prices marked `old` ({stale}) are more than {catalog.stale_days} days old."
            " Replace them with `anygpu catalog update` or `anygpu catalog import`."
        )
    return lines


def no_offers_message(gpu: str) -> str:
    what = f"No offer of {gpu} matches" if gpu else "No offer matches"
    return f"{what}. `anygpu catalog show` without options lists all offers."


def cloud_row(each: "CloudTerms", catalog: "Catalog") -> tuple[str, ...]:
    out = each.egress_microusd_per_gib
    return (
        each.cloud,
        formatting.duration(each.billing.step_s),
        formatting.duration(each.billing.minimum_s) if each.billing.minimum_s else "-",
        formatting.duration(each.setup_s),
        "?" if out is None else _dollars(out),
        formatting.duration(each.max_run_s),
        "yes" if each.dedicated else "no",
        _price_summary(each, catalog),
    )


def _price_summary(each: "CloudTerms", catalog: "Catalog") -> str:
    if each.is_owned:
        return "yours (catalog.own_prices)"
    count = len(catalog.search(clouds=(each.cloud,)))
    days = sorted({one.recorded for one in catalog.search(clouds=(each.cloud,)).one_per_shape()})
    return f"{formatting.plural(count, 'offer')} as of {days[0]}" if days else "none; import a price list"


def _dollars(microusd: int) -> str:
    return f"{microusd / 1_000_000:.3f}"


DEFAULT_LIMIT = 30
MAX_BYTES = 64 * 1024 * 1024
TIMEOUT_S = 30.0
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@click.group(name="catalog", cls=SuggestingGroup)
def catalog_command() -> None:
    """Show and update the table of GPU prices."""


@catalog_command.command(name="show")
@click.option("--gpu", default="", help="GPU type, count or memory: `a100`, `H100:8`, `24GB`.")
@click.option(
    "--cloud",
    "clouds",
    multiple=True,
    help="Only this cloud, such as `gcp` or `ec2`; `aws` selects every AWS service. Repeatable.",
)
@click.option(
    "--region", "regions", multiple=True, help="Only this region. Repeatable. Lists each region separately."
)
@click.option("--spot/--on-demand", default=None, help="Only spot or only on-demand prices.")
@click.option("--sort", default="price", type=click.Choice(["price", "gpu-price", "cloud", "gpu", "age"]))
@click.option(
    "--limit", default=DEFAULT_LIMIT, help=f"Number of lines; 0 shows all. Default: {DEFAULT_LIMIT}."
)
@json_option
def show_offers(
    gpu: str,
    clouds: tuple[str, ...],
    regions: tuple[str, ...],
    spot: bool | None,
    sort: str,
    limit: int,
    as_json: bool,
) -> None:
    """List matching offers, cheapest first.

    Without --region, only the cheapest region of each machine type is listed.
    """
    catalog, need = load_catalog(), _parse_gpu(gpu)
    _check_regions(regions, catalog)
    offers = catalog.search(need, clouds=_parse_clouds(clouds), regions=regions, spot=spot)
    listed = _sort(offers if regions else offers.one_per_shape(), sort)
    shown = listed[: limit or None]
    if as_json:
        emit_json({"total": len(listed), "offers": [_offer_dict(each) for each in shown]})
        return
    emit(output.table(OFFER_HEADING, offer_rows(shown, offers)) if shown else [no_offers_message(gpu)])
    emit(["", *offer_footer(catalog, shown, len(listed))] if shown else [])


@catalog_command.command(name="clouds")
@json_option
def list_clouds(as_json: bool) -> None:
    """List the clouds with their billing rules and the age of their prices."""
    from anygpu.plan.catalog import terms

    catalog = load_catalog()
    if as_json:
        emit_json([_cloud_dict(each, catalog) for each in terms().values()])
        return
    emit(output.table(CLOUD_HEADING, [cloud_row(each, catalog) for each in terms().values()]))
    own = sorted(catalog.policy.own_microusd_per_hour.items())
    emit(
        [
            "",
            *(
                f"{name}: {formatting.money(price)} per hour (your own machines, from catalog.own_prices)"
                for name, price in own
            ),
        ]
        if own
        else []
    )


@catalog_command.command(name="import")
@click.argument("file", type=click.Path(exists=True, dir_okay=False))
@click.option("--cloud", default="", help="Cloud of the price list; required for lists in SkyPilot's format.")
@click.option(
    "--as-of", "recorded", default="", help="Date of the prices, YYYY-MM-DD. Default: the file's date."
)
@json_option
def import_prices(file: str, cloud: str, recorded: str, as_json: bool) -> None:
    """Import a price list in SkyPilot's or anygpu's format. Imported prices replace the built-in ones."""
    from pathlib import Path

    from anygpu.plan.catalog.tables import read_lines

    path = Path(file)
    day = _parse_day(recorded) if recorded else _modified_day(path)
    rows, left_out = _read_price_list(read_lines(path), path.name, cloud, day)
    for name, its in _group_by_cloud(rows).items():
        _layers().save_import(name, its)
    _print_counts(
        "imported", {name: len(its) for name, its in _group_by_cloud(rows).items()}, left_out, as_json
    )


@catalog_command.command(name="update")
@click.argument("source")
@json_option
def update_prices(source: str, as_json: bool) -> None:
    """Update the price table from SOURCE, a file or an https URL.

    Imported prices and your own edits are kept.
    """
    from anygpu.plan.catalog.tables import read_table

    rows = read_table(_read_source(source), source.rpartition("/")[2])
    if not rows:
        raise InvalidSpec(
            [
                Problem(
                    "",
                    "",
                    "contains no prices, so the price catalog was not changed; give a file with at least one price",
                    source=source,
                )
            ]
        )
    _layers().save_update(rows)
    _print_counts("updated", {name: len(its) for name, its in _group_by_cloud(rows).items()}, {}, as_json)


def load_catalog() -> "Catalog":
    from datetime import UTC, datetime

    from anygpu import settings
    from anygpu.plan.catalog import CatalogPolicy
    from anygpu.plan.catalog import load_catalog as load

    options = settings.load().catalog
    policy = CatalogPolicy.from_settings(
        discounts=options.discounts, credits=options.credits, own_prices=options.own_prices
    )
    today = datetime.now(UTC).date()
    return load(_layers(), today=today, policy=policy, stale_days=options.stale_days)


def _layers() -> "CatalogLayers":
    from anygpu import settings
    from anygpu.plan.catalog import CatalogLayers

    return CatalogLayers(
        folder=settings.load().state / "catalog", edits=settings.config_path().with_name("catalog.csv")
    )


def _parse_gpu(gpu: str) -> "Resources":
    from pydantic import ValidationError

    from anygpu.plan.hardware import gpus
    from anygpu.spec.sections import Resources

    try:
        need = Resources.model_validate({"gpu": gpu} if gpu else {})
    except ValidationError as error:
        raise click.UsageError(f"--gpu {gpu!r}: {error.errors()[0]['msg']}.") from None
    kind = need.gpu.kind if need.gpu else None
    if kind and not gpus.is_known(kind) and gpus.closest_kind(kind):
        raise click.UsageError(f"Unknown GPU type {kind!r}. Did you mean {gpus.closest_kind(kind)!r}?")
    return need


def _parse_clouds(names: tuple[str, ...]) -> tuple[str, ...]:
    from anygpu.plan.catalog import find_clouds, terms

    for name in names:
        if not find_clouds(name):
            raise click.UsageError(no_such("cloud", name, list(terms())))
    return tuple(cloud for name in names for cloud in find_clouds(name))


def _check_regions(regions: tuple[str, ...], catalog: "Catalog") -> None:
    from anygpu.suggest import suggestion

    for region in regions:
        if region not in catalog.regions:
            hint = suggestion(region, sorted(catalog.regions), "`anygpu catalog show` lists regions.")
            raise click.UsageError(f"There is no region {region!r}. {hint}")


def _sort(offers: "CatalogOffers", sort: str) -> "list[CatalogOffer]":
    orders: dict[str, Any] = {
        "gpu-price": lambda each: each.price_microusd_per_hour / max(each.gpu_count, 1),
        "cloud": lambda each: (each.cloud, each.name),
        "gpu": lambda each: (each.gpu_kind, each.gpu_count),
        "age": lambda each: each.age_days,
    }
    return list(offers) if sort == "price" else sorted(offers, key=orders[sort])


def _offer_dict(each: "CatalogOffer") -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(each)


def _cloud_dict(each: "CloudTerms", catalog: "Catalog") -> dict[str, Any]:
    from dataclasses import asdict

    offers = len(catalog.search(clouds=(each.cloud,)))
    credit = catalog.policy.credit_microusd(each.cloud)
    return {**asdict(each), "owned": each.is_owned, "offers": offers, "credit_microusd": credit}


def _read_price_list(
    lines: list[str], name: str, cloud: str, recorded: str
) -> "tuple[list[PriceRow], dict[str, int]]":
    from anygpu.plan.catalog import skypilot, tables

    columns, _ = tables.parse_csv(lines)
    if not skypilot.is_skypilot_table(columns):
        return tables.read_table(lines, name), {}
    if not cloud:
        raise click.UsageError("The price list does not name its cloud. Name the cloud with --cloud.")
    target = _parse_clouds((cloud,))[0]
    table = skypilot.read_skypilot(lines, name, cloud=target, source=f"import of {name}", recorded=recorded)
    return [*table.rows], dict(table.skipped)


def _group_by_cloud(rows: "list[PriceRow]") -> "dict[str, list[PriceRow]]":
    groups: dict[str, list[PriceRow]] = {}
    for row in rows:
        groups.setdefault(row.cloud, []).append(row)
    return groups


def _modified_day(path: "Path") -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(path.stat().st_mtime, UTC).date().isoformat()


def _parse_day(text: str) -> str:
    from datetime import date

    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise click.UsageError(f"--as-of {text!r} is not a date. Write it as 2026-08-22.") from None


def _read_source(source: str) -> list[str]:
    """Read the lines of a file or of an https URL."""
    from pathlib import Path

    from anygpu.plan.catalog.tables import read_lines

    if "://" in source:
        return _download(source)
    if not Path(source).is_file():
        raise NotFound(
            f"There is no file with prices at {source}.", hint="Give the path of a file, or an https URL."
        )
    return read_lines(Path(source))


def _download(address: str) -> list[str]:
    from urllib.parse import urlsplit
    from urllib.request import urlopen

    where = urlsplit(address)
    if where.scheme != "https" and (where.scheme != "http" or where.hostname not in LOOPBACK):
        raise click.UsageError("Prices can be downloaded over https only. Use an https URL or a file.")
    try:
        with urlopen(address, timeout=TIMEOUT_S) as answer:
            content: bytes = answer.read(MAX_BYTES + 1)
    except OSError as error:
        raise NotFound(
            f"Cannot download prices from {address}: {describe_error(error)}.",
            hint="The price catalog was not changed.",
        ) from error
    if len(content) > MAX_BYTES:
        raise TooLarge(
            f"The file with prices at {address} is larger than {formatting.size(MAX_BYTES)}, which is the "
            "limit.",
            hint="The price catalog was not changed.",
        )
    return content.decode("utf-8", errors="replace").splitlines(keepends=True)


def _print_counts(verb: str, taken: dict[str, int], left_out: dict[str, int], as_json: bool) -> None:
    if as_json:
        emit_json({verb: taken, "left_out": left_out})
        return
    emit(
        f"{verb.capitalize()} {formatting.plural(count, 'offer')} of {cloud}."
        for cloud, count in taken.items()
    )
    emit(f"Skipped {formatting.plural(count, 'line')}: {reason}" for reason, count in left_out.items())
