"""Measure the engines of clusters: how fast jobs start there, and how many one server can manage."""

from bench import kubernetes, slurm
from bench.server import BenchServer, Figure


def measure(_: BenchServer, *, quick: bool = False) -> list[Figure]:
    return [*slurm.measure(quick=quick), *kubernetes.measure(quick=quick)]
