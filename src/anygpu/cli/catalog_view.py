"""How offers and places of the catalog are shown: lines of tables, and what is said under them."""

from typing import TYPE_CHECKING

from anygpu.cli import words

if TYPE_CHECKING:
    from anygpu.plan.catalog import Candidate, Candidates, Catalog, Terms

HEADING = ("CLOUD", "MACHINE", "GPU", "GIB", "CPUS", "RAM", "REGION", "MARKET", "$/H", "$/GPU/H", "AS OF")
TERMS_HEADING = ("CLOUD", "BILLED BY", "AT LEAST", "SETUP", "$/GIB OUT", "LONGEST RUN", "DEDICATED", "PRICES")


def cells(shown: "list[Candidate]", found: "Candidates") -> list[tuple[str, ...]]:
    regions = found.regions()
    return [_line(each, regions[each.cloud, each.name, each.interruptible]) for each in shown]


def _line(each: "Candidate", regions: int) -> tuple[str, ...]:
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


def footer(catalog: "Catalog", shown: "list[Candidate]", total: int) -> list[str]:
    stale = sum(each.stale for each in shown)
    lines = [f"{len(shown)} of {words.plural(total, 'offer')}"]
    if stale:
        lines.append(
            f"{words.plural(stale, 'price')} marked `old`: read more than {catalog.stale_days} days ago."
            " `anygpu catalog update` and `import` take newer ones."
        )
    return lines


def nothing(gpu: str) -> str:
    what = f"No offer of {gpu} fits" if gpu else "No offer fits"
    return f"{what}. `anygpu catalog show` without options shows what there is."


def terms_cells(each: "Terms", catalog: "Catalog") -> tuple[str, ...]:
    out = each.egress_microusd_per_gib
    return (
        each.cloud,
        words.duration(each.billing.step_s),
        words.duration(each.billing.minimum_s) if each.billing.minimum_s else "-",
        words.duration(each.setup_s),
        "?" if out is None else _dollars(out),
        words.duration(each.max_run_s),
        "yes" if each.dedicated else "no",
        _known(each, catalog),
    )


def _known(each: "Terms", catalog: "Catalog") -> str:
    if each.owned:
        return "yours (catalog.own_prices)"
    count = len(catalog.candidates(clouds=(each.cloud,)))
    days = sorted({one.recorded for one in catalog.candidates(clouds=(each.cloud,)).one_per_shape()})
    return f"{words.plural(count, 'offer')} as of {days[0]}" if days else "none known; import a list"


def _dollars(microusd: int) -> str:
    return f"{microusd / 1_000_000:.3f}"
