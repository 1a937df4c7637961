"""Wrong options of a Ray backend are named."""

from typing import Any

import pytest
from tests.unit.backends.ray.dashboard import ADDRESS

from anygpu.backends.options import parse_options
from anygpu.backends.ray.options import RayOptions
from anygpu.errors import InvalidSpec


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "is required"),
        ({"address": "head:8265"}, "is not valid; expected: URL of the cluster's dashboard"),
        ({"address": "http://a:b@head"}, "contains a password"),
        ({"address": ADDRESS, "gpu_prices": "A100"}, "is not a price"),
    ],
)
def test_wrong_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidSpec, match=message):
        parse_options(RayOptions, options, {})


@pytest.mark.parametrize("credential", [{"token": "hid\nden"}, {"token": "hiddén"}, {"headers": "X: hiddén"}])
def test_a_credential_that_no_header_can_contain_is_refused_without_its_value(
    credential: dict[str, str],
) -> None:
    with pytest.raises(InvalidSpec, match="characters that an HTTP header cannot contain") as refused:
        parse_options(RayOptions, {"address": ADDRESS}, credential)
    assert "hid" not in str(refused.value)


def test_a_line_break_after_a_token_is_left_out() -> None:
    parsed = parse_options(RayOptions, {"address": ADDRESS}, {"token": "abc\n"}).options
    assert isinstance(parsed, RayOptions)
    assert parsed.http_headers() == {"Authorization": "Bearer abc"}
