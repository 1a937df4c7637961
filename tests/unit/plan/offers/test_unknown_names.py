"""A misspelt region, zone or machine type is named, with the name that was probably meant."""

from typing import Any

from anygpu.events.offers import Offer
from anygpu.plan.offers.candidates import Candidate, CandidateSet
from anygpu.plan.offers.unknown_names import unknown_names
from anygpu.spec.load import from_mapping


def messages(**placement: Any) -> tuple[str, ...]:
    offers = [
        Offer(backend="ec2", region="us-east-1", zone="us-east-1a", name="g5.xlarge"),
        Offer(backend="ec2", region="eu-west-1", name="p4d.24xlarge"),
    ]
    candidates = CandidateSet.of([Candidate(offer=offer) for offer in offers])
    return unknown_names(from_mapping({"script": "train.py", "placement": placement}), candidates)


def test_names_that_an_offer_has_are_accepted() -> None:
    assert messages() == ()
    assert messages(region="eu-west-1") == ()
    assert messages(region="us-east-1", zone="us-east-1a", instance_type="g5.xlarge") == ()


def test_a_similar_name_is_suggested() -> None:
    (message,) = messages(region="eu-wst-1")
    assert message == "No offer has the region 'eu-wst-1'. Did you mean 'eu-west-1'?"


def test_without_a_similar_name_a_command_lists_the_names() -> None:
    region, machine = messages(region="mars", instance_type="quantum")
    assert region == "No offer has the region 'mars'. `anygpu catalog show` lists regions."
    assert machine == "No offer has the machine type 'quantum'. `anygpu catalog show` lists machine types."
