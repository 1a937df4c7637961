"""Signatures are checked against botocore's own signer."""

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from anygpu.cloudsim.apis.ec2 import signature

BODY = b"Action=DescribeInstances&Filter.1.Value.1=a+b"


def signed(secret: str = "secret") -> dict[str, str]:
    headers = {"Host": "127.0.0.1:1", "X-Amz-Target": "spaced   out"}
    request = AWSRequest(method="POST", url="http://127.0.0.1:1/ec2?b=2&a=x%20y", data=BODY, headers=headers)
    SigV4Auth(Credentials("key", secret), "ec2", "us-west-2").add_auth(request)
    return {name.lower(): value for name, value in request.headers.items()}


@pytest.mark.parametrize(
    ("secret", "body", "holds"), [("secret", BODY, True), ("other", BODY, False), ("secret", b"", False)]
)
def test_a_signature_is_valid_only_for_its_secret_and_its_body(secret: str, body: bytes, holds: bool) -> None:
    headers = signed()
    found = signature.parse_header(headers["authorization"])
    assert found is not None
    assert (found.key_id, found.region, found.service) == ("key", "us-west-2", "ec2")
    assert signature.is_valid(found, secret, "POST", "/ec2", "b=2&a=x%20y", headers, body) is holds


@pytest.mark.parametrize("header", ["", "Bearer x", "AWS4-HMAC-SHA256 Credential=a/b"])
def test_an_invalid_header_gives_none(header: str) -> None:
    assert signature.parse_header(header) is None
