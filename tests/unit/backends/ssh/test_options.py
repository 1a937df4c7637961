"""Options and addresses of SSH hosts."""

import pytest
from pydantic import ValidationError

from anygpu.backends.ssh.options import SshOptions, split_address


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("box", ("", "box", 22)),
        ("me@box", ("me", "box", 22)),
        ("me@box.lab.example:2222", ("me", "box.lab.example", 2222)),
        ("me@[::1]:2222", ("me", "::1", 2222)),
        ("[::1]", ("", "::1", 22)),
    ],
)
def test_an_address_is_split_as_ssh_does(address: str, parts: tuple[str, str, int]) -> None:
    assert split_address(address) == parts
    assert SshOptions(host=address).addresses == (address,)


@pytest.mark.parametrize("address", ["", "me@", "a b", "me@box:port", "x@y@z"])
def test_an_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(ValidationError):
        SshOptions(host=address)


def test_no_host_and_one_host_key_for_several_hosts_are_refused() -> None:
    with pytest.raises(ValidationError, match="no host is given"):
        SshOptions()
    with pytest.raises(ValidationError, match="`host_keys` can be set only for one host"):
        SshOptions(hosts=("a", "b"), host_keys=("ssh-ed25519 A",))
