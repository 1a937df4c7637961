"""The terms of the clouds are complete and refer to each other correctly."""

from datetime import date

import pytest

from anygpu.plan.catalog.terms import CloudTerms, find_clouds, terms


@pytest.mark.parametrize("entry", terms().values(), ids=lambda entry: entry.cloud)
def test_the_terms_of_a_cloud_are_plausible(entry: CloudTerms) -> None:
    assert entry.billing.step_s >= 1
    assert entry.billing.minimum_s >= 0
    assert entry.setup_s > 0
    assert entry.max_nodes >= 1
    assert entry.max_run_s is None or entry.max_run_s > 0


def test_terms_of_a_rented_machine_have_a_source_and_a_date() -> None:
    for entry in terms().values():
        if not entry.is_owned:
            assert entry.source
            assert date.fromisoformat(entry.recorded) > date(2025, 1, 1)


def test_a_cloud_with_the_prices_of_another_names_one_that_has_a_list() -> None:
    for entry in terms().values():
        assert entry.is_owned or entry.same_prices_as or entry.priced == "list"
        if entry.same_prices_as:
            assert terms()[entry.same_prices_as].priced == "list"


def test_a_provider_stands_for_all_its_clouds_and_a_name_for_itself() -> None:
    assert find_clouds("ec2") == ("ec2",)
    assert set(find_clouds(" AWS ")) >= {"ec2", "ecs", "sagemaker"}
    assert find_clouds("nowhere") == ()


def test_prices_are_read_as_microdollars() -> None:
    assert terms()["ec2"].egress_microusd_per_gib == 90_000
