"""What boxes of one's own can be told."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, model_validator

DAY_S = 86_400.0
HostAddress = Annotated[
    str, StringConstraints(pattern=r"^([^@\s]+@)?(\[[0-9a-fA-F:]+\]|[^@\s:\[\]]+)(:\d{1,5})?$")
]


class Options(BaseModel):
    """One box, or several that are logged in to in the same way."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: HostAddress | None = Field(
        None, description="the box: [user@]name[:port], also a name from ~/.ssh/config"
    )
    hosts: tuple[HostAddress, ...] = Field((), description="several boxes, each as in `host`")
    identity: str = Field(
        "", description="private key file on the server; empty: the server's own keys and agent"
    )
    private_key: SecretStr = Field(
        SecretStr(""), description="private key to log in with, in OpenSSH's format"
    )
    host_keys: tuple[str, ...] = Field((), description="the box's host keys; empty: pinned at first sight")
    price_microusd_per_hour: int = Field(0, ge=0, description="what an hour of a box is counted as")
    cpus: int = Field(0, ge=0, description="CPU slots of a box; 0: as many as it has processors")
    python: str = Field("", description="the Python to run agents and jobs with; empty: the first found")
    lease_s: float = Field(DAY_S, ge=60, description="how long an agent goes on without reaching the server")

    @model_validator(mode="after")
    def _check_addresses(self) -> "Options":
        if not self.addresses:
            raise ValueError("no box is named; set host (or hosts)")
        if self.host_keys and len(self.addresses) > 1:
            raise ValueError("host_keys belong to one box; give each box a backend of its own")
        return self

    @property
    def addresses(self) -> tuple[str, ...]:
        return (*((self.host,) if self.host else ()), *self.hosts)


def split_address(address: str) -> tuple[str, str, int]:
    """`me@box:2222` -> user, host, port; an address without them has an empty user and port 22."""
    user, _, place = address.rpartition("@")
    host, colon, port = place.rpartition(":")
    if not colon or place.endswith("]"):
        host, port = place, "22"
    return user, host.strip("[]"), int(port)
