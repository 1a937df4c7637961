"""The quick reader of long lists says what botocore says."""

from typing import Any
from xml.etree.ElementTree import ParseError

import botocore.session
import pytest
from botocore.parsers import create_parser

from anygpu.backends.clouds.ec2 import translate
from anygpu.backends.clouds.ec2.parser import EMPTY_RESPONSE, MAX_CACHED, InstanceParser

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
    assert model.output_shape is not None
    found: dict[str, Any] = create_parser("ec2").parse(answer, model.output_shape)
    return found


def machines(answer: dict[str, Any]) -> list[Any]:
    return [translate.machine_of(i, "r") for group in answer["Reservations"] for i in group["Instances"]]


def test_every_used_field_equals_botocores_result() -> None:
    quick, slow = InstanceParser().parse(LISTED), by_botocore(LISTED)
    assert machines(quick) == machines(slow)
    assert [m.id for m in machines(quick)] == ["i-1", "i-2"]
    assert quick["NextToken"] == slow["NextToken"] == "more"


def test_an_empty_list_is_empty() -> None:
    assert (
        machines(
            InstanceParser().parse(
                b"<DescribeInstancesResponse><reservationSet/></DescribeInstancesResponse>"
            )
        )
        == []
    )


def test_an_error_is_left_to_botocore() -> None:
    refused: dict[str, Any] = {"status_code": 503, "body": b"<Response/>"}
    mine: dict[str, Any] = {}
    InstanceParser().before_parse(refused, mine)
    assert (refused["body"], mine) == (b"<Response/>", {})
    listed: dict[str, Any] = {"status_code": 200, "body": LISTED}
    InstanceParser().before_parse(listed, mine)
    assert listed["body"] == EMPTY_RESPONSE
    assert len(machines(mine)) == 2


def test_changed_reservations_are_parsed_again_and_removed_ones_disappear() -> None:
    reader = InstanceParser()
    first = reader.parse(LISTED)
    changed = LISTED.replace(b"taken &amp; gone", b"back", 1)
    assert machines(reader.parse(changed)) == machines(by_botocore(changed)) != machines(first)
    assert machines(reader.parse(LISTED)) == machines(first)
    one = LISTED[: LISTED.index(b"<item><reservationId>r-2")] + LISTED[LISTED.index(b"</reservationSet>") :]
    assert [m.id for m in machines(reader.parse(one))] == ["i-1"]


def test_an_answer_with_line_breaks_and_without_the_first_line_reads_the_same() -> None:
    spread = LISTED.split(b"\n", 1)[1].replace(b"><", b">\n  <")
    assert machines(InstanceParser().parse(spread)) == machines(by_botocore(LISTED))


@pytest.mark.parametrize(
    "text",
    [
        LISTED.decode().replace("taken &amp; gone", "<![CDATA[<item><reservationId>]]>").encode(),
        LISTED.decode().replace("UTF-8", "UTF-16").encode("utf-16"),
        LISTED.decode()
        .replace("<reservationSet>", "<!-- <item><reservationId> --><reservationSet>")
        .encode(),
    ],
    ids=["cdata", "utf-16", "comment"],
)
def test_an_answer_that_cannot_be_split_is_parsed_as_a_whole(text: bytes) -> None:
    assert machines(InstanceParser().parse(text)) == machines(by_botocore(text))


def test_elements_between_reservations_do_not_shift_them() -> None:
    between = LISTED.replace(b"</item><item><reservationId>r-2", b"</item><new/><item><reservationId>r-2")
    assert [m.id for m in machines(InstanceParser().parse(between))] == ["i-1", "i-2"]


def test_a_truncated_answer_is_an_error_as_in_botocore() -> None:
    reader = InstanceParser()
    reader.parse(LISTED)
    for torn in (LISTED[:-30], LISTED[: LISTED.index(b"</reservationSet>")], LISTED[:900], b""):
        with pytest.raises(ParseError):
            reader.parse(torn)
        answer: dict[str, Any] = {"status_code": 200, "body": torn}
        reader.before_parse(answer, {})
        assert answer["body"] == torn, "botocore reads it, and says so in its own words"


def test_the_cache_is_bounded() -> None:
    reader = InstanceParser()
    for number in range(9):
        many = "".join(
            f"<item><reservationId>{number}-{n}</reservationId><instancesSet/></item>"
            for n in range(MAX_CACHED // 3)
        )
        reader.parse(LISTED.replace(b"<reservationSet>", b"<reservationSet>" + many.encode()))
        assert len(reader._cache) <= 2 * MAX_CACHED
    assert len(machines(reader.parse(LISTED))) == 2
