"""Run every measurement, print the table, write docs/benchmarks.md."""

import argparse
import compileall
import os
import platform
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from bench import (
    accuracy,
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
)
from bench.peers import ROOT
from bench.stage import Figure, Stage, stage

METHOD = Path(__file__).with_name("method.md")  # what a table cannot say
SKYPILOT_IDLE_MB = 553  # its API server, idle, on a machine of this kind
SECTIONS = {
    "start": start,
    "overhead": overhead,
    "watching": watching,
    "ingest": ingest,
    "pages": pages,
    "recovery": recovery,
    "machines": machines,
    "trainers": trainers,
    "plan": plan,
    "spot": spot,
    "queue": queue,
    "accuracy": accuracy,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "only", nargs="*", choices=[*SECTIONS, []], help="sections to run; all when none is named"
    )
    chosen = parser.parse_args().only or list(SECTIONS)
    figures: list[Figure] = []
    compileall.compile_dir(ROOT / "src", quiet=1)  # as an installed package is
    with tempfile.TemporaryDirectory() as directory:
        if "pages" in chosen:
            pages.fill(Path(directory) / "state")
        with stage(Path(directory)) as running:
            for name in chosen:
                print(f"measuring {name}", flush=True)
                found = SECTIONS[name].measure(running)
                figures += found
                for figure in found:
                    print("  " + line(figure), flush=True)
            figures += server_itself(running)
    for figure in figures[-2:]:
        print("  " + line(figure), flush=True)
    if chosen == list(SECTIONS):
        write(figures)
    missed = [figure.what for figure in figures if not figure.met]
    print(
        f"{len(figures) - len(missed)} of {len(figures)} targets met"
        + "".join(f"\n  missed: {m}" for m in missed)
    )
    sys.exit(1 if missed else 0)


def server_itself(running: Stage) -> list[Figure]:
    rss = running.rss_mb()
    return [
        Figure(
            what="server ready",
            ours=f"{running.ready_s:.2f} s",
            against="",
            ratio="",
            target="under 1 s",
            met=running.ready_s < 1,
            how="from exec to the line that says so",
        ),
        Figure(
            what="server memory after all this",
            ours=f"{rss:.0f} MB",
            against=f"SkyPilot idle {SKYPILOT_IDLE_MB} MB",
            ratio=f"{rss / SKYPILOT_IDLE_MB:.2f}",
            target="at most 1/3",
            met=rss <= SKYPILOT_IDLE_MB / 3,
            how="VmRSS",
        ),
    ]


def line(figure: Figure) -> str:
    mark = "ok  " if figure.met else "MISS"
    return f"{mark} {figure.what}: {figure.ours} ({figure.against}) {figure.ratio} [{figure.target}]"


def write(figures: list[Figure]) -> None:
    rows = "\n".join(
        f"| {f.what} | {f.ours} | {f.against} | {f.ratio} | {f.target} | {'yes' if f.met else '**no**'} | {f.how} |"
        for f in figures
    )
    page = f"""# Benchmarks

`make bench` writes this page: every figure is from one run on one machine, beside the peer it is compared with.
Baselines use the interpreter's own path, never a shim. Absolute figures belong to the machine; ratios are the point.

{datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores ({processor()}), {platform.system()} {platform.release()},
Python {platform.python_version()}.

| what | anygpu | against | ratio | target | met | how |
|---|---|---|---|---|---|---|
{rows}
"""
    (ROOT / "docs" / "benchmarks.md").write_text(page + METHOD.read_text())


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
