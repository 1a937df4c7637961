"""The lists of nodes and pods that all attempts share."""

import asyncio

import pytest

from anygpu.backends.kubernetes.cluster import Cluster
from anygpu.backends.kubernetes.listing import ClusterLists
from anygpu.errors import BackendUnavailable


async def test_a_failed_list_of_nodes_is_the_answer_to_all_who_wait_for_it() -> None:
    tries: list[str] = []

    def refuse() -> Cluster:
        tries.append("try")
        raise BackendUnavailable("The API server does not answer")

    lists = ClusterLists(refuse, "nvidia.com/gpu")
    failures = await asyncio.gather(*(lists.nodes(15) for _ in range(100)), return_exceptions=True)
    assert {type(failure) for failure in failures} == {BackendUnavailable}
    assert len(tries) == 1
    with pytest.raises(BackendUnavailable):
        await lists.nodes(15)
    assert len(tries) == 2
    await lists.close()
