"""Tags of servers: stored at engines and providers, so they must stay the same."""

from anygpu.backends.owner import owner_tag
from anygpu.backends.vm.machines import machine_tag


def test_a_tag_stays_the_same_because_resources_carry_it() -> None:
    assert owner_tag(b"secret", "owner of slurm jobs") == "e356611d6aee"
    assert machine_tag(b"secret") == "c9a91cb3"


def test_servers_and_purposes_have_different_tags() -> None:
    tags = {owner_tag(secret, purpose) for secret in (b"a", b"b") for purpose in ("jobs", "machines")}
    assert len(tags) == 4
    assert {len(tag) for tag in tags} == {12}
