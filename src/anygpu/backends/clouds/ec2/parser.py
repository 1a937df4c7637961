"""Parse DescribeInstances answers many times faster than botocore.

botocore parses all seventy fields of every instance, which takes a second of CPU time for a thousand
machines. This parser reads only the fields in use, and only the instances that have changed. Field names are
those of botocore's ec2 model (`locationName`). Error answers are parsed by botocore.
"""

import gc
import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any

TEXT_FIELDS = {
    "instanceId": "InstanceId",
    "instanceType": "InstanceType",
    "ipAddress": "PublicIpAddress",
    "privateIpAddress": "PrivateIpAddress",
    "reason": "StateTransitionReason",
    "instanceLifecycle": "InstanceLifecycle",
    "spotInstanceRequestId": "SpotInstanceRequestId",
}
EMPTY_RESPONSE = b"<DescribeInstancesResponse/>"
MAX_CACHED = 10_000  # parsed reservations
RESERVATION = re.compile(rb"<item>\s*<reservationId>")
RESERVATIONS_END = b"</reservationSet>"
Parsed = dict[str, Any]


class InstanceParser:
    """Parses the answers of one region. Reservations whose XML has not changed are taken from a cache.

    A reservation here is EC2's group of instances that were launched by one request.
    """

    def __init__(self) -> None:
        self._cache: dict[bytes, list[Parsed]] = {}

    def before_parse(self, response_dict: Parsed, customized_response_dict: Parsed, **_: Any) -> None:
        """Handle botocore's event `before-parse`: parse the answer here instead of in botocore."""
        if response_dict["status_code"] != 200:
            return
        with _gc_paused(), suppress(ET.ParseError):  # botocore reports invalid XML
            customized_response_dict.update(self.parse(response_dict["body"]))
            response_dict["body"] = EMPTY_RESPONSE

    def parse(self, body: bytes) -> Parsed:
        """Return the parsed answer in botocore's format, with only the fields in use.

        Parts of the result are cached, so callers must not modify it.
        """
        rest, reservations = _split_reservations(body)
        if len(self._cache) > MAX_CACHED:
            self._cache = {}
        cache = self._cache  # another thread may replace it
        new = [each for each in dict.fromkeys(reservations) if each not in cache]
        read = ET.fromstring(b"<new>%s</new>" % b"".join(new))  # noqa: S314 - as botocore reads it
        if len(read) != len(new):  # unexpected elements between the reservations
            return _parse_all(body)
        cache.update({text: _parse_instances(item) for text, item in zip(new, read, strict=True)})
        parsed = _parse_all(rest)
        parsed["Reservations"] += [{"Instances": cache[each]} for each in reservations]
        return parsed


def _split_reservations(body: bytes) -> tuple[bytes, list[bytes]]:
    """Split the XML of an answer into the text without reservations, and a list of the reservations.

    XML with comments or CDATA is not split: the list is then empty.
    """
    starts = [match.start() for match in RESERVATION.finditer(body)]
    end = body.rfind(RESERVATIONS_END)
    if not starts or end < starts[-1] or b"<!" in body:
        return body, []
    pieces = [body[start:stop] for start, stop in zip(starts, [*starts[1:], end], strict=True)]
    return body[: starts[0]] + body[end:], pieces


@contextmanager
def _gc_paused() -> Iterator[None]:
    """Pause garbage collection, because the many nodes of the XML tree would trigger full collections."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _parse_all(body: bytes) -> Parsed:
    root = ET.fromstring(body)  # noqa: S314 - botocore reads the same answer the same way
    space = root.tag.partition("}")[0] + "}" if root.tag.startswith("{") else ""
    items = root.iterfind(_path(space, "reservationSet/item"))
    token = root.findtext(f"{space}nextToken")
    groups = [{"Instances": _parse_instances(item, space)} for item in items]
    return {"Reservations": groups, **({"NextToken": token} if token else {})}


def _parse_instances(reservation: ET.Element, space: str = "") -> list[Parsed]:
    return [_parse_instance(item, space) for item in reservation.iterfind(_path(space, "instancesSet/item"))]


def _parse_instance(item: ET.Element, space: str) -> Parsed:
    parsed: Parsed = {}
    for child in item:
        name = child.tag[len(space) :]
        if name in TEXT_FIELDS and child.text:
            parsed[TEXT_FIELDS[name]] = child.text
        elif name == "instanceState":
            parsed["State"] = {"Name": child.findtext(f"{space}name")}
        elif name == "stateReason":
            parsed["StateReason"] = _child_texts(child, space, code="Code", message="Message")
        elif name == "tagSet":
            parsed["Tags"] = [_child_texts(tag, space, key="Key", value="Value") for tag in child]
        elif name == "launchTime" and child.text:
            parsed["LaunchTime"] = datetime.fromisoformat(child.text)
    return parsed


def _child_texts(element: ET.Element, space: str, **names: str) -> dict[str, str]:
    return {ours: element.findtext(f"{space}{theirs}") or "" for theirs, ours in names.items()}


def _path(space: str, path: str) -> str:
    return "/".join(f"{space}{step}" for step in path.split("/"))
