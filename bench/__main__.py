"""Run the benchmark sections, print the results and write docs/benchmarks.md.

python -m bench                  every section, then write docs/benchmarks.md
python -m bench start ingest     only these sections
python -m bench --quick          every section at a small size and without peers: checks that each one works
"""

import argparse
import compileall
import os
import platform
import sys
import tempfile
import textwrap
import time
import traceback
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType

from bench import (
    accuracy,
    clusters,
    ingest,
    machines,
    overhead,
    pages,
    plan,
    queue,
    recovery,
    spot,
    start,
    trainers,
    watching,
    web,
)
from bench.peers import ROOT
from bench.server import BenchServer, Figure, start_server

METHOD = Path(__file__).with_name("method.md")  # what the tables cannot say
SKYPILOT_IDLE_MB = 553  # its API server, idle, on a machine of this kind


@dataclass(frozen=True)
class Section:
    """A section of the page: its title, what it measures, and the module that measures it."""

    title: str
    summary: str
    module: ModuleType


MEMORY = "Server memory"
MEMORY_SUMMARY = "How much memory the server uses after all the measurements above."
SECTIONS = {
    "start": Section(
        "Start",
        ("How long a user waits for the first output line of a job, for a command, and for a new server."),
        start,
    ),
    "overhead": Section(
        "Overhead in a training",
        (
            "How much CPU time anygpu takes from a training: the calls of the `anygpu` module in the "
            "script, and the agent beside it."
        ),
        overhead,
    ),
    "watching": Section(
        "Live updates",
        (
            "How long an event takes to reach clients that watch a job, also if its machine has no route to the server "
            "and uses a [relay](explanation/relay.md)."
        ),
        watching,
    ),
    "web": Section(
        "Web app",
        "How fast the web app shows what happens, and how much memory a page takes.",
        web,
    ),
    "ingest": Section(
        "Metrics ingestion",
        "How many metric points the server stores per second, compared with MLflow.",
        ingest,
    ),
    "pages": Section(
        "Lists and charts",
        "How long a list of jobs and the data of a chart take.",
        pages,
    ),
    "recovery": Section(
        "Recovery",
        "How long a job stands still when its machine is lost.",
        recovery,
    ),
    "machines": Section(
        "A thousand machines",
        "Whether one server can manage a thousand rented machines.",
        machines,
    ),
    "clusters": Section(
        "Clusters",
        (
            "How fast a job starts in a [Slurm](how-to/slurm.md) or [Kubernetes](how-to/kubernetes.md) cluster, and "
            "whether one server can manage hundreds of jobs there."
        ),
        clusters,
    ),
    "trainers": Section(
        "Trainers",
        "How much CPU time and waiting time anygpu adds to its own [trainers](how-to/trainers.md).",
        trainers,
    ),
    "plan": Section(
        "Planning",
        (
            "How long it takes to [rank all offers](explanation/planning.md) and to [analyse a "
            "script](explanation/analysis.md)."
        ),
        plan,
    ),
    "spot": Section(
        "Spot policy",
        (
            "What jobs with a deadline cost on spot machines, compared with other policies "
            "([details](explanation/spot.md))."
        ),
        spot,
    ),
    "queue": Section(
        "Queue",
        (
            "How the queue shares machines among projects, compared with other policies "
            "([details](explanation/queue.md#benchmark))."
        ),
        queue,
    ),
    "accuracy": Section(
        "Accuracy of predictions",
        ("How close predicted times, costs and memory are ([details](explanation/accuracy.md#figures))."),
        accuracy,
    ),
}
INTRODUCTION = """# Benchmarks

This page shows how fast anygpu is, compared with other programs and with its own targets. Read it before you choose
anygpu, or after a change that may make it slower. `make bench` measures everything and writes this page.

All figures of the tables come from one run on one machine. Absolute figures depend on the machine, so look at the
ratios.

| column | meaning |
|---|---|
| anygpu | the measured value. p50 is the median; p99 is the value that 99 % of the measurements do not exceed |
| against | what it is compared with, or a detail of the measurement |
| ratio | the comparison of the two |
| clients | the number of concurrent clients: of anygpu, or of anygpu and of the other program |
| target | what anygpu should reach |
| met | whether it does |
| how | how it was measured |
"""
Results = dict[str, list[Figure]]  # by section title


def main() -> None:
    options = arguments()
    names = options.sections or list(SECTIONS)
    compileall.compile_dir(ROOT / "src", quiet=1)  # as an installed package is
    with tempfile.TemporaryDirectory() as directory:
        results = run(Path(directory), names, quick=options.quick)
    if names == list(SECTIONS) and not options.quick:
        write_page(results)
    summarise(results, quick=options.quick)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "sections", nargs="*", choices=[*SECTIONS, []], help="sections to run; all when none is named"
    )
    parser.add_argument("--quick", action="store_true", help="small sizes, no peers, no page")
    return parser.parse_args()


def run(directory: Path, names: Sequence[str], *, quick: bool) -> Results:
    if "pages" in names:
        pages.fill(directory / "state", quick=quick)
    results: Results = {}
    with start_server(directory) as server:
        for name in names:
            section = SECTIONS[name]
            print(f"measuring {name}", flush=True)
            results[section.title] = measure_section(section, server, quick=quick)
            print_figures(results[section.title], quick=quick)
        results[MEMORY] = [server_memory(server)]
        print_figures(results[MEMORY], quick=quick)
    return results


def measure_section(section: Section, server: BenchServer, *, quick: bool) -> list[Figure]:
    """Measure one section. A failure becomes a row of its own, so that the other sections still run."""
    try:
        figures: list[Figure] = section.module.measure(server, quick=quick)
        return figures
    except Exception as error:
        traceback.print_exc()
        reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        return [
            Figure(what=section.title, ours="not measured", target="", met=False, failed=True, how=reason)
        ]


def server_memory(server: BenchServer) -> Figure:
    rss = server.rss_mb()
    return Figure(
        what="memory of the server after all measurements",
        ours=f"{rss:.0f} MB",
        against=f"idle API server of SkyPilot: {SKYPILOT_IDLE_MB} MB",
        ratio=f"{rss / SKYPILOT_IDLE_MB:.2f}",
        target="at most 1/3",
        met=rss <= SKYPILOT_IDLE_MB / 3,
        how="resident memory",
    )


def print_figures(figures: Iterable[Figure], *, quick: bool) -> None:
    for figure in figures:
        print(f"  {figure.what}: {figure.ours}" if quick else f"  {line(figure)}", flush=True)


def line(figure: Figure) -> str:
    mark = "ok  " if figure.met else "MISS"
    return f"{mark} {figure.what}: {figure.ours} ({figure.against}) {figure.ratio} [{figure.target}]"


def summarise(results: Results, *, quick: bool) -> None:
    """Print what missed its target and exit: 1 for a missed target, or in a quick run for a section that failed."""
    figures = [figure for section in results.values() for figure in section]
    bad = [figure.what for figure in figures if (figure.failed if quick else not figure.met)]
    if quick:
        print(f"{len(figures) - len(bad)} of {len(figures)} rows measured; a quick run judges no target")
    else:
        print(f"{len(figures) - len(bad)} of {len(figures)} targets met")
    for what in bad:
        print(f"  {'failed' if quick else 'missed'}: {what}")
    sys.exit(1 if bad else 0)


def write_page(results: Results) -> None:
    summaries = {section.title: section.summary for section in SECTIONS.values()} | {MEMORY: MEMORY_SUMMARY}
    sections = "".join(section_text(title, summaries[title], results[title]) for title in results)
    page = f"""{INTRODUCTION}
Measured on {datetime.now(UTC):%Y-%m-%d}: {os.cpu_count()} cores ({processor()}),
{platform.system()} {platform.release()}, Python {platform.python_version()}.
{sections}"""
    (ROOT / "docs" / "benchmarks.md").write_text(page + METHOD.read_text())


def section_text(title: str, summary: str, figures: Sequence[Figure]) -> str:
    rows = "\n".join(
        f"| {f.what} | {f.ours} | {f.against} | {f.ratio} | {f.clients} | {f.target} | {met_text(f)} | {f.how} |"
        for f in figures
    )
    return f"""
## {title}

{textwrap.fill(summary, 118, break_on_hyphens=False)}

| what | anygpu | against | ratio | clients | target | met | how |
|---|---|---|---|---|---|---|---|
{rows}
"""


def met_text(figure: Figure) -> str:
    if not figure.target and not figure.failed:
        return ""
    return "yes" if figure.met else "**no**"


def processor() -> str:
    for row in Path("/proc/cpuinfo").read_text().splitlines():
        if row.startswith("model name"):
            return row.split(":", 1)[1].strip()
    return platform.machine()


if __name__ == "__main__":
    began = time.monotonic()
    try:
        main()
    finally:
        print(f"took {time.monotonic() - began:.0f} s")
