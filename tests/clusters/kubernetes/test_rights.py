"""What a service account may do: `check` names each right that is missing, and a project can have its namespace."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from lightkube import Client
from lightkube.resources.core_v1 import ServiceAccount
from scripts.clusters.kubernetes import ControlPlane
from tests.clusters.kubernetes.conftest import StartNode, make_namespace
from tests.clusters.kubernetes.place import KubernetesPlace, list_objects
from tests.clusters.kubernetes.product import RBAC, apply_manifests, make_token

from anygpu.backends.contract import MachineState
from anygpu.backends.kubernetes.cluster import AccessDenied
from anygpu.errors import LaunchRefused
from anygpu.events.offers import Handle
from anygpu.spec.sections import Resources
from anygpu.testing.contracts.backend import first_free_offer, new_launch, wait_for_state, wait_until
from anygpu.testing.servers.agent_listener import AgentListener


@pytest.fixture
async def place(
    control_plane: ControlPlane, admin: Client, namespace: str, start_node: StartNode
) -> AsyncIterator[KubernetesPlace]:
    with AgentListener({"shell": "sleep 1000"}) as listener:
        made = KubernetesPlace(listener, control_plane, admin, namespace, start_node(f"node-{namespace}"))
        yield made
        for backend in made.backends:
            await backend.close()


def with_token(place: KubernetesPlace, token: str, **options: Any) -> None:
    connection = {"api_url": place.plane.url, "token": token, "kubeconfig_path": ""}
    authority = place.plane.certificate.read_text()
    place.backend = place.fresh_backend(**connection, certificate_authority=authority, **options)


async def test_an_account_without_rights_is_told_what_is_missing(place: KubernetesPlace) -> None:
    account: Any = ServiceAccount.from_dict({"metadata": {"name": "nobody"}})
    place.admin.create(account, namespace=place.namespace)
    with_token(place, make_token(place.admin, place.namespace, "nobody"))
    status = await place.backend.check()
    assert not status.valid
    assert "create jobs, delete jobs, get jobs, list jobs, watch jobs, delete pods" in status.message
    assert "create secrets, create configmaps, delete configmaps, list nodes" in status.message
    assert "rbac.yaml" in status.message
    with pytest.raises(AccessDenied, match="may not list Nodes"):
        await place.backend.offers(Resources())


async def test_a_wrong_token_is_named(place: KubernetesPlace) -> None:
    with_token(place, "no-such-token")
    status = await place.backend.check()
    assert not status.valid
    assert "does not accept the credentials" in status.message


async def test_an_address_where_nothing_answers_is_named(place: KubernetesPlace) -> None:
    place.backend = place.fresh_backend(api_url="https://127.0.0.1:1", token="t", kubeconfig_path="")
    status = await place.backend.check()
    assert not status.valid
    assert "https://127.0.0.1:1 cannot be reached" in status.message


async def test_a_namespace_that_does_not_exist_is_named(place: KubernetesPlace) -> None:
    status = await place.fresh_backend(namespace="no-such-place").check()
    assert not status.valid
    assert 'namespaces "no-such-place" not found' in status.message
    assert "Create the namespace" in status.message
    assert (await place.backend.check()).valid
    assert place.objects() == []  # the check has created nothing


async def test_each_project_has_its_namespace(place: KubernetesPlace) -> None:
    apply_manifests(place.admin, RBAC, place.namespace)
    apply_manifests(place.admin, RBAC.with_name("rbac-namespaces.yaml"), place.namespace)
    with_token(place, make_token(place.admin, place.namespace), namespace="ml-{project}")
    assert (await place.backend.check()).valid
    make_namespace(place.admin, "ml-vision")
    launch = replace(new_launch(place), project="vision")
    handle = await place.backend.launch(launch, await first_free_offer(place))
    assert handle.native["namespace"] == "ml-vision"
    await wait_for_state(place, Handle(name=handle.name), MachineState.RUNNING)
    await place.backend.terminate(Handle(name=handle.name))
    await wait_for_state(place, handle, MachineState.GONE)
    await wait_until(lambda: list_objects(place.admin, "ml-vision") == [])
    for project in ("Vision Team", "../kube-system", ""):
        with pytest.raises(LaunchRefused, match="is not a valid namespace"):
            await place.backend.launch(replace(launch, project=project), await first_free_offer(place))
