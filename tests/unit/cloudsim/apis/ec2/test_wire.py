"""Requests and responses of the simulated EC2 have the format of the real one."""

import pytest

from anygpu.cloudsim.apis.ec2.errors import Ec2Error
from anygpu.cloudsim.apis.ec2.wire import (
    apply_filters,
    page,
    read_form,
    reason_time,
    render,
    response,
    tags_for,
    timestamp,
    xml,
)

MACHINES = [{"id": "i-1", "state": "running"}, {"id": "i-2", "state": "stopped"}]


def test_numbered_fields_become_lists() -> None:
    body = b"Action=Describe&Filter.1.Name=a&Filter.1.Value.1=b&Filter.1.Value.2=c&Filter.2.Name=d&Empty="
    assert read_form(body) == {
        "Action": "Describe",
        "Filter": [{"Name": "a", "Value": ["b", "c"]}, {"Name": "d"}],
        "Empty": "",
    }


def test_values_become_xml_and_are_escaped_once() -> None:
    assert xml("a", {"b": [1, True], "c": None, "d": "<&>"}) == (
        "<a><b><item>1</item><item>true</item></b><d>&lt;&amp;&gt;</d></a>"
    )
    assert xml("a", render({"b": "&"})) == "<a><b>&amp;</b></a>"


def test_a_response_names_its_action_and_its_request() -> None:
    text = response("DescribeRegions", {"regionInfo": []}, "r-1")
    assert "<DescribeRegionsResponse xmlns=" in text
    assert "<requestId>r-1</requestId>" in text


def test_times_are_written_as_ec2_writes_them() -> None:
    assert timestamp(1_760_000_000_999) == "2025-10-09T08:53:20.000Z"
    assert timestamp(None) is None
    assert reason_time(1_760_000_000_999) == "2025-10-09 08:53:20 GMT"


def test_the_tags_are_those_for_the_kind_of_resource() -> None:
    fields = read_form(
        b"TagSpecification.1.ResourceType=instance&TagSpecification.1.Tag.1.Key=Name"
        b"&TagSpecification.1.Tag.1.Value=a&TagSpecification.2.ResourceType=volume"
        b"&TagSpecification.2.Tag.1.Key=Other"
    )
    assert tags_for(fields, "instance") == {"Name": "a"}
    assert tags_for(fields, "volume") == {"Other": ""}
    assert tags_for({}, "instance") == {}


def matching(query: bytes) -> list[str]:
    found = apply_filters(
        MACHINES,
        read_form(query),
        facts=lambda machine: {"instance-state-name": machine["state"]},
        tags=lambda machine: {"Name": machine["id"]},
    )
    return [machine["id"] for machine in found]


def test_filters_select_by_value_pattern_and_tag() -> None:
    assert matching(b"") == ["i-1", "i-2"]
    assert matching(b"Filter.1.Name=instance-state-name&Filter.1.Value.1=run*") == ["i-1"]
    assert matching(b"Filter.1.Name=tag:Name&Filter.1.Value.1=i-2") == ["i-2"]
    assert matching(b"Filter.1.Name=tag-key&Filter.1.Value.1=Other") == []


def test_an_unknown_filter_is_refused() -> None:
    with pytest.raises(Ec2Error, match="'colour'"):
        matching(b"Filter.1.Name=colour&Filter.1.Value.1=red")


def test_pages_follow_each_other_until_the_end() -> None:
    first, token = page(range(5), {"MaxResults": "2"})
    second, following = page(range(5), {"MaxResults": "2", "NextToken": token})
    last, end = page(range(5), {"MaxResults": "2", "NextToken": following})
    assert (first, second, last, end) == ([0, 1], [2, 3], [4], None)
