"""Reads a long list of instances about ten times faster than botocore: only the fields we look at.

botocore walks all seventy members of every instance, a second of computing for a thousand machines, while little else
in the server runs. Names are those of botocore's ec2 model (`locationName`); an error goes its own way.
"""

import gc
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

TEXTS = {
    "instanceId": "InstanceId",
    "instanceType": "InstanceType",
    "ipAddress": "PublicIpAddress",
    "privateIpAddress": "PrivateIpAddress",
    "reason": "StateTransitionReason",
    "instanceLifecycle": "InstanceLifecycle",
    "spotInstanceRequestId": "SpotInstanceRequestId",
}
NOTHING = b"<DescribeInstancesResponse/>"
Found = dict[str, Any]


def read_quickly(response_dict: Found, customized_response_dict: Found, **_: Any) -> None:
    """For botocore's event `before-parse`: what is read here is not read again by botocore."""
    if response_dict["status_code"] != 200:
        return
    with _uncollected():
        customized_response_dict.update(described(response_dict["body"]))
    response_dict["body"] = NOTHING


@contextmanager
def _uncollected() -> Iterator[None]:
    """A tree of a hundred thousand nodes that goes as a whole is no reason to look through all the server's memory."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def described(body: bytes) -> Found:
    """As botocore would give it, without the fields nobody asks for."""
    root = ET.fromstring(body)  # noqa: S314 - botocore reads the same answer the same way
    space = root.tag.partition("}")[0] + "}" if root.tag.startswith("{") else ""
    instances = [
        _instance(item, space)
        for item in root.iterfind(_path(space, "reservationSet/item/instancesSet/item"))
    ]
    token = root.findtext(f"{space}nextToken")
    return {"Reservations": [{"Instances": instances}], **({"NextToken": token} if token else {})}


def _instance(item: ET.Element, space: str) -> Found:
    found: Found = {}
    for child in item:
        name = child.tag[len(space) :]
        if name in TEXTS and child.text:
            found[TEXTS[name]] = child.text
        elif name == "instanceState":
            found["State"] = {"Name": child.findtext(f"{space}name")}
        elif name == "stateReason":
            found["StateReason"] = _texts(child, space, code="Code", message="Message")
        elif name == "tagSet":
            found["Tags"] = [_texts(tag, space, key="Key", value="Value") for tag in child]
        elif name == "launchTime" and child.text:
            found["LaunchTime"] = datetime.fromisoformat(child.text)
    return found


def _texts(element: ET.Element, space: str, **names: str) -> dict[str, str]:
    return {ours: element.findtext(f"{space}{theirs}") or "" for theirs, ours in names.items()}


def _path(space: str, path: str) -> str:
    return "/".join(f"{space}{step}" for step in path.split("/"))
