"""The quick reader of long lists says what botocore says."""

from typing import Any

import botocore.session
from botocore.parsers import create_parser

from anygpu.backends.clouds import ec2_words
from anygpu.backends.clouds.ec2_reading import NOTHING, described, read_quickly

INSTANCE = """<item><instanceId>i-{number}</instanceId><imageId>ami-1</imageId>
<instanceState><code>48</code><name>terminated</name></instanceState><privateDnsName/>
<reason>Service initiated (2026-01-31 13:00:00 GMT)</reason><instanceType>g5.xlarge</instanceType>
<launchTime>2026-01-31T12:00:00.000Z</launchTime><ipAddress>192.0.2.{number}</ipAddress>
<privateIpAddress>10.0.0.{number}</privateIpAddress><instanceLifecycle>spot</instanceLifecycle>
<spotInstanceRequestId>sir-{number}</spotInstanceRequestId>
<stateReason><code>Server.SpotInstanceTermination</code><message>taken &amp; gone</message></stateReason>
<tagSet><item><key>Name</key><value/></item><item><key>anygpu-name</key><value>anygpu-{number}</value></item></tagSet>
</item>"""
LISTED = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<DescribeInstancesResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>r</requestId>'
    f"<reservationSet><item><reservationId>r-1</reservationId><instancesSet>{INSTANCE.format(number=1)}</instancesSet></item>"
    f"<item><reservationId>r-2</reservationId><instancesSet>{INSTANCE.format(number=2)}</instancesSet></item>"
    "</reservationSet><nextToken>more</nextToken></DescribeInstancesResponse>"
).encode()


def by_botocore(body: bytes) -> dict[str, Any]:
    model = botocore.session.get_session().get_service_model("ec2").operation_model("DescribeInstances")
    answer = {"body": body, "headers": {}, "status_code": 200}
    found: dict[str, Any] = create_parser("ec2").parse(answer, model.output_shape)
    return found


def machines(answer: dict[str, Any]) -> list[Any]:
    return [ec2_words.machine(i, "r") for group in answer["Reservations"] for i in group["Instances"]]


def test_every_field_we_look_at_is_as_botocore_reads_it() -> None:
    quick, slow = described(LISTED), by_botocore(LISTED)
    assert machines(quick) == machines(slow)
    assert [m.id for m in machines(quick)] == ["i-1", "i-2"]
    assert quick["NextToken"] == slow["NextToken"] == "more"


def test_an_empty_list_is_empty() -> None:
    assert (
        machines(described(b"<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>")) == []
    )


def test_an_error_is_left_to_botocore() -> None:
    refused: dict[str, Any] = {"status_code": 503, "body": b"<Response/>"}
    mine: dict[str, Any] = {}
    read_quickly(refused, mine)
    assert (refused["body"], mine) == (b"<Response/>", {})
    listed: dict[str, Any] = {"status_code": 200, "body": LISTED}
    read_quickly(listed, mine)
    assert listed["body"] == NOTHING
    assert len(mine["Reservations"][0]["Instances"]) == 2
