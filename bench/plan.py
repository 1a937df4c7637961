"""Measure planning over fifty thousand offers, and the analysis of scripts.

python -m bench.plan
"""

import random
import statistics
import time
from collections.abc import Callable, Iterator
from datetime import date
from functools import partial

from anygpu.backends.registry import kind_names
from anygpu.plan.analyse.findings import Analysis
from anygpu.plan.analyse.script import analyse
from anygpu.plan.catalog import Catalog, PriceRow, candidates_in, terms
from anygpu.plan.offers.candidates import CandidateSet
from anygpu.plan.offers.comparison import SHORTLIST, Comparison, comparison_as_dict, rank
from anygpu.spec.jobspec import JobSpec
from anygpu.spec.load import from_mapping
from bench.peers import ROOT
from bench.server import BenchServer, Figure

OFFERS = 50_000
SEED = 2024
RUNS = 15
FULL_MS, AGAIN_MS, SCRIPT_MS, LARGE_MS = 50.0, 20.0, 100.0, 2000.0
STRATEGIES = ("cheapest", "fastest", "balanced", "preferred", "queue")
# A GPU and what an hour of one costs, roughly, on demand.
KINDS = {
    "T4": 0.45, "L4": 0.75, "A10G": 1.1, "V100-16GB": 2.2, "RTX4090": 0.6, "RTXA6000": 0.8, "L40S": 1.6,
    "A100-40GB": 2.9, "A100-80GB": 3.7, "H100-PCIe": 3.2, "H100-SXM": 6.5, "H200": 8.0, "B200": 11.0,
}  # fmt: skip
SCRIPTS = ROOT / "tests" / "unit" / "plan" / "scripts"


def main() -> None:
    from bench.__main__ import line

    for figure in figures():
        print(line(figure))


def measure(_: BenchServer, *, quick: bool = False) -> list[Figure]:
    return figures(offers=2_000, runs=1) if quick else figures()


def figures(offers: int = OFFERS, runs: int = RUNS) -> list[Figure]:
    rows = list(generated(offers))
    book = Catalog(rows, today=date(2026, 11, 16))
    made_ms, candidates = once_ms(lambda: candidates_in(book, kinds=kind_names()))
    sorting_ms = cpu_ms(lambda: sorted(rows), runs)
    rows.clear()  # a server keeps none of them
    read = analyse((SCRIPTS / "timm_finetune.py").read_bytes(), name="timm_finetune.py")
    full_ms = max(cpu_ms(partial(whole, candidates, read, strategy), runs) for strategy in STRATEGIES)
    again_ms = max(cpu_ms(partial(typed, candidates, read, strategy), runs) for strategy in STRATEGIES)
    how = f"{len(candidates):,} offers of {candidates.group_count} kinds; fastest of {runs}, slowest strategy"
    against = f"sorting them {sorting_ms:.0f} ms"
    return [
        figure("rank all offers for a job", full_ms, against, sorting_ms, FULL_MS, how),
        figure(
            "rank them again after a change of the job", again_ms, against, sorting_ms, AGAIN_MS,
            f"the offers are prepared once, in {made_ms:.0f} ms",
        ),
        *reading(functions=45_000 if offers == OFFERS else 500),
    ]  # fmt: skip


def reading(functions: int) -> list[Figure]:
    """Reading a script beside parsing it, which is the least one can do."""
    scripts = [path.read_bytes() for path in sorted(SCRIPTS.glob("*.py"))]
    ours = [cpu_ms(partial(analyse, text), runs=3) for text in scripts]
    parse_ms = statistics.median(cpu_ms(partial(compiled, text), runs=3) for text in scripts)
    large = "\n".join(
        [
            scripts[0].decode(),
            *(f"def step_{i}(model, batch):\n    return model(batch, {i}) + {i}" for i in range(functions)),
        ]
    )
    tree_ms = cpu_ms(lambda: compiled(large.encode()), runs=1)
    return [
        figure(
            "analyse a training script", statistics.median(ours), f"parsing {parse_ms:.1f} ms", parse_ms, SCRIPT_MS,
            f"median of {len(scripts)} scripts; the slowest takes {max(ours):.0f} ms",
        ),
        figure(
            f"analyse a script of {len(large) / 1e6:.1f} MB",
            cpu_ms(lambda: analyse(large), runs=3), f"parsing {tree_ms:.0f} ms", tree_ms,
            LARGE_MS, "only the parts about training are analysed",
        ),
    ]  # fmt: skip


def figure(what: str, ours_ms: float, against: str, peer_ms: float, target_ms: float, how: str) -> Figure:
    return Figure(
        what=what,
        ours=f"{ours_ms:.1f} ms",
        against=against,
        ratio=f"{ours_ms / peer_ms:.2f}",
        target=f"under {target_ms:g} ms",
        met=ours_ms < target_ms,
        how=how,
    )


def whole(candidates: CandidateSet, read: Analysis, strategy: str) -> Comparison:
    """All offers in order, and the short list with its words."""
    comparison = rank(asked(strategy), candidates, read)
    assert comparison.ranked[0] == comparison.shortlist()[0]
    return comparison


def typed(candidates: CandidateSet, read: Analysis, strategy: str) -> dict[str, object]:
    """What the API answers: the short list with its words, and why the others are out."""
    spec = asked(strategy, max_cost=CHANCE.uniform(5, 500), gpus=CHANCE.choice((1, 1, 2)))
    return comparison_as_dict(rank(spec, candidates, read), read, limit=SHORTLIST)


CHANCE = random.Random(SEED)


def asked(strategy: str, *, max_cost: float = 1e6, gpus: int = 1) -> JobSpec:
    return from_mapping(
        {
            "script": "train.py",
            "resources": {"gpu": gpus},
            "placement": {"strategy": strategy, "interruptible": "yes", "fallbacks": ["lambda", "gcp"]},
            "limits": {"max_cost": f"${max_cost:.2f}"},
        }
    )


def generated(offers: int) -> Iterator[PriceRow]:
    """Each cloud rents some kinds in some sizes, in many regions, at prices that differ by region and market."""
    chance = random.Random(SEED)
    shapes = [
        (cloud.cloud, f"{kind.lower()}-{count}-{cpus}", kind, count, cpus, spot)
        for cloud in terms().values()
        for kind in chance.sample(list(KINDS), 7)
        for count in (1, 2, 4, 8)
        for cpus in chance.sample((8, 16, 32, 48), 2)
        for spot in ((False, True) if cloud.spot else (False,))
    ]
    regions = [f"region-{number}" for number in range(-(-offers // len(shapes)))]
    for region in regions:
        dearer = chance.uniform(0.9, 1.5)
        for cloud, name, kind, count, cpus, spot in shapes:
            hour = KINDS[kind] * count * dearer * chance.uniform(0.9, 1.1) * (0.4 if spot else 1)
            price = round(1e6 * (hour + 0.02 * cpus))
            yield PriceRow(
                cloud, name, kind, count, cpus, 4.0 * cpus, region, spot, price, "generated", "2026-11-01"
            )


def compiled(text: bytes) -> None:
    import ast

    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return


def cpu_ms(ask: Callable[[], object], runs: int = RUNS) -> float:
    """The least of the runs in processor time: other programs on the machine only add to it."""
    times = []
    for _ in range(runs):
        begun = time.process_time()
        ask()
        times.append(1000 * (time.process_time() - begun))
    return min(times)


def once_ms(make: Callable[[], CandidateSet]) -> tuple[float, CandidateSet]:
    begun = time.process_time()
    made = make()
    return 1000 * (time.process_time() - begun), made


if __name__ == "__main__":
    main()
