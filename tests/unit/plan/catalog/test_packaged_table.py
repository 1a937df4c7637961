"""The table in the package: what it must have, and that the adapters' own tables say the same."""

from datetime import date
from pathlib import Path

import pytest

from anygpu.backends.clouds.ec2.offers import on_demand_microusd
from anygpu.backends.clouds.paperspace import TYPES
from anygpu.plan.catalog import CatalogLayers, PriceRow, find_clouds, terms
from anygpu.plan.hardware import gpus

NOWHERE = Path(__file__).parent / "nowhere"
ROWS = CatalogLayers(folder=NOWHERE, edits=NOWHERE / "catalog.csv").rows()
WITHOUT_A_PUBLIC_PRICE = {"canopywave"}


def of(cloud: str) -> list[PriceRow]:
    return [row for row in ROWS if row.cloud == cloud]


def test_every_row_says_who_said_so_and_when() -> None:
    assert all(row.source and date(2025, 1, 1) <= date.fromisoformat(row.recorded) for row in ROWS)


def test_every_cloud_that_is_rented_has_prices_and_every_machine_a_gpu_we_know() -> None:
    rented = {each.cloud for each in terms().values() if not each.is_owned} - WITHOUT_A_PUBLIC_PRICE
    assert {row.cloud for row in ROWS} == rented
    assert {row.gpu for row in ROWS} <= set(gpus.specs())
    assert len({row.key for row in ROWS}) == len(ROWS)


def test_prices_are_of_whole_machines_and_spot_is_cheaper_than_on_demand() -> None:
    on_demand = {row.key[:3]: row.price_microusd or 0 for row in ROWS if not row.spot}
    assert all(50_000 <= price <= 250_000_000 for price in on_demand.values())
    spot = [row for row in ROWS if row.spot]
    assert len(spot) > 500
    assert all((row.price_microusd or 0) < on_demand[row.key[:3]] for row in spot)
    assert all(terms()[row.cloud].spot for row in spot)


def test_the_table_and_the_adapter_of_ec2_say_the_same() -> None:
    asked = [(row, on_demand_microusd(row.instance_type, row.region)) for row in of("ec2") if not row.spot]
    shared = [(row.price_microusd, known) for row, known in asked if known is not None]
    assert len(shared) > 300
    assert all(ours == theirs for ours, theirs in shared)


def test_the_table_and_the_adapter_of_paperspace_say_the_same() -> None:
    adapters = {kind.name: kind.microusd_per_hour for kind in TYPES}
    assert {row.instance_type: row.price_microusd for row in of("paperspace")}.items() <= adapters.items()


def test_ecs_rents_the_machines_of_ec2_at_their_prices() -> None:
    assert sorted(row._replace(cloud="ec2") for row in of("ecs")) == sorted(of("ec2"))


def test_google_is_priced_with_its_hosts() -> None:
    found = {row.key[1:3]: row.price_microusd for row in of("gcp")}
    assert found["a2-highgpu-1g", "us-central1"] == 3_673_390
    assert found["g2-standard-4", "us-central1"] == 706_830


@pytest.mark.parametrize(
    ("name", "clouds"),
    [("aws", ("ec2", "ecs", "sagemaker")), ("EC2", ("ec2",)), ("local", ("local",)), ("nobody", ())],
)
def test_a_provider_stands_for_all_of_its_clouds(name: str, clouds: tuple[str, ...]) -> None:
    assert find_clouds(name) == clouds


def test_what_is_not_known_of_a_place_is_not_said() -> None:
    assert terms()["vast"].egress_microusd_per_gib is None
    assert terms()["ec2"].max_run_s is None
    assert terms()["modal"].max_run_s == 86400
    assert (terms()["gcp"].max_nodes, terms()["modal"].max_nodes) == (64, 1)
    assert (terms()["paperspace"].billing.step_s, terms()["ec2"].billing.minimum_s) == (3600, 60)
    assert [each.cloud for each in terms().values() if each.is_owned] == [
        "kubernetes",
        "slurm",
        "ray",
        "workers",
        "celery",
        "ssh",
        "local",
    ]
