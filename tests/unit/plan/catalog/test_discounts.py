"""Discounts, credits and prices of one's own."""

import pytest
from tests.unit.plan.catalog.builders import catalog, names, row

from anygpu.errors import InvalidSpec
from anygpu.plan.catalog import CatalogPolicy


def test_a_machines_discount_wins_over_its_clouds_and_that_over_its_providers() -> None:
    policy = CatalogPolicy.from_settings(discounts=["ec2=20%", "aws=10%", "ec2/p5.48xlarge=50%"])
    pays = [policy.price(*what, 1_000_000) for what in (("ec2", "p5.48xlarge"), ("ec2", "g5"), ("ecs", "g5"))]
    assert pays == [500_000, 800_000, 900_000]
    assert policy.price("gcp", "g5", 1_000_000) == 1_000_000


def test_a_discount_changes_the_order_and_the_list_price_stays_known() -> None:
    found = catalog(
        row("a", 1_000_000, cloud="gcp"),
        row("b", 1_100_000, cloud="azure"),
        policy=CatalogPolicy.from_settings(discounts=["azure=12.5%"], credits=["gcp=$300"]),
    ).search()
    assert names(found) == ["b", "a"]
    assert (found[0].price_microusd_per_hour, found[0].list_microusd_per_hour) == (962_500, 1_100_000)
    assert [each.credit_microusd for each in found] == [0, 300_000_000]


def test_backends_of_ones_own_have_their_own_price() -> None:
    assert CatalogPolicy.from_settings(own_prices=["lab = 0.35"]).own_microusd_per_hour == {"lab": 350_000}


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"discounts": ["ec2"]}, "catalog.discounts: 'ec2' is not NAME=VALUE"),
        ({"discounts": ["ec2=10"]}, "is not a discount; write a percentage from 0% to 100%"),
        ({"discounts": ["ec2=110%"]}, "is not a discount"),
        ({"discounts": ["ec2=x%"]}, "is not a discount"),
        ({"discounts": ["ec3=10%"]}, "there is no cloud 'ec3'"),
        ({"credits": ["gcp=much"]}, "catalog.credits: 'gcp=much'"),
        ({"own_prices": ["=1"]}, "catalog.own_prices"),
    ],
)
def test_a_setting_that_cannot_be_is_named(wrong: dict[str, list[str]], said: str) -> None:
    with pytest.raises(InvalidSpec) as caught:
        CatalogPolicy.from_settings(**wrong)
    assert said in str(caught.value)
