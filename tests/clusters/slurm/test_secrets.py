"""Other users of a Slurm cluster see neither the secrets of a job nor the ticket of its agent."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from scripts.clusters.slurm import HIGH, SlurmCluster
from tests.acceptance.machines.secret_traces import (
    agent_secrets,
    command_lines,
    find_words,
    native_request,
    readable_files,
    submit_with_secrets,
)
from tests.acceptance.machines.wired_host import open_wired_host
from tests.clusters.slurm.product import Product, backend_settings
from tests.walk import content_of, paths_below

pytestmark = pytest.mark.timeout(180)


@pytest.fixture(scope="module")
def product(
    tmp_path_factory: pytest.TempPathFactory, cluster: SlurmCluster, login_path: tuple[str, ...]
) -> Iterator[Product]:
    folder = tmp_path_factory.mktemp("secrets")
    with open_wired_host(tmp_path_factory.mktemp("login"), login_path) as (node, wire):
        login = {"host": f"{node.user}@127.0.0.1:{wire.port}", "private_key": node.key.private_openssh}
        settings = (
            backend_settings("direct", folder, partitions=[HIGH]),
            backend_settings("remote", folder, partitions=[HIGH], **login),
            backend_settings("relayed", folder, partitions=[HIGH], relay="cluster", **login),
        )
        made = Product(folder, cluster, "\n".join(settings))
        made.key_lines = node.key.private_openssh.splitlines()[1:-1]
        yield made
        made.server.stop()


@pytest.mark.parametrize("backend", ["direct", "remote", "relayed"])
def test_what_slurm_and_the_nodes_show_has_no_secret(product: Product, backend: str) -> None:
    job = submit_with_secrets(product.server, backend)
    number = product.slurm_job(job)
    shared = product.server.folder / "shared"
    (directory,) = [
        path.parent
        for path in paths_below(shared)
        if path.name == "work.json" and job.replace("-", "") in str(path)
    ]
    secrets = agent_secrets(directory)
    run = product.cluster.run
    shown = (
        run("scontrol", "show", "job", "-dd", number),
        run("scontrol", "write", "batch_script", number, "-"),
        run("squeue", "-t", "all", "-o", "%all"),
        run("sacct", "-P", "-j", number, "--format=ALL"),
        *(path.read_text() for path in directory.glob("slurm-*.out")),
        command_lines(),
        native_request(product.server, backend, product.server.folder),
    )
    assert number in shown[0]
    assert "#SBATCH" in shown[-1]
    assert [find_words(text, [*secrets, *product.key_lines]) for text in shown] == [[] for _ in shown]
    assert readable_files(shared, secrets) == []
    product.server.anygpu("cancel", job)
    product.server.wait(job, "cancelled", within_s=60)
    product.wait_until_empty()
    left = [path for path in paths_below(shared) if path.is_file() and is_kept(path, secrets[:2])]
    assert left == []


def is_kept(path: Path, secrets: list[str]) -> bool:
    """Return whether a file of an ended job still has its secrets."""
    return bool(find_words(content_of(path).decode("utf-8", "replace"), secrets))
