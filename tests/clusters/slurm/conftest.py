"""A real Slurm cluster for the tests of one process, and a login node in front of it."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.clusters import slurm
from scripts.clusters.slurm import SlurmCluster
from tests.clusters.conftest import report_missing_engine

COMMANDS = ("sbatch", "squeue", "scancel", "sinfo", "scontrol", "sacct", "srun")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    problem = slurm.install()
    if problem:
        report_missing_engine("Slurm", problem)
    with SlurmCluster(tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


@pytest.fixture(autouse=True)
def nodes_are_free(cluster: SlurmCluster) -> Iterator[None]:
    """Cancel what a test left, and make all nodes usable again."""
    yield
    cluster.clean()


@pytest.fixture(scope="session")
def login_path(cluster: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, ...]:
    """The PATH of a login node: Slurm's commands know where the cluster is."""
    folder = tmp_path_factory.mktemp("login")
    write_commands(folder, cluster)
    return (str(folder), "/usr/local/bin", "/usr/bin", "/bin")


def write_commands(folder: Path, cluster: SlurmCluster) -> None:
    for name in COMMANDS:
        program = folder / name
        program.write_text(
            f'#!/bin/sh\nSLURM_CONF={cluster.variables["SLURM_CONF"]} exec {shutil.which(name)} "$@"\n'
        )
        program.chmod(0o755)
