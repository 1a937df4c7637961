"""Options of the SSH backend."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, model_validator

from anygpu.backends.options import Interconnect, interconnect_field

DAY_S = 86_400.0
HostAddress = Annotated[
    str, StringConstraints(pattern=r"^([^@\s]+@)?(\[[0-9a-fA-F:]+\]|[^@\s:\[\]]+)(:\d{1,5})?$")
]


class SshOptions(BaseModel):
    """Options of an SSH backend: one host, or several hosts that share the same login."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: HostAddress | None = Field(
        None, description="the host: [user@]name[:port], or a name from ~/.ssh/config"
    )
    hosts: tuple[HostAddress, ...] = Field((), description="several hosts, each as in `host`")
    identity: str = Field(
        "", description="private key file on the server; empty: the server user's keys and ssh-agent"
    )
    private_key: SecretStr = Field(SecretStr(""), description="private key for the login, in OpenSSH format")
    host_keys: tuple[str, ...] = Field(
        (), description="host keys of the machine; empty: the first key seen is pinned"
    )
    interconnect: Interconnect = interconnect_field()
    price_microusd_per_hour: int = Field(
        0, ge=0, description="price of one hour in micro-dollars, for cost accounting"
    )
    cpus: int = Field(0, ge=0, description="CPUs of a host that jobs may use; 0: all")
    python: str = Field("", description="Python for agents and jobs; empty: the first one found")
    lease_s: float = Field(
        DAY_S, ge=60, description="seconds that an agent keeps running without contact with the server"
    )
    relay: Literal["", "directory", "storage"] = Field(
        "",
        description="how agents reach the server if a host allows no reverse tunnel: directory (relay.directory) or "
        "storage (the bucket of the server); empty: through a tunnel",
    )
    node_addresses: tuple[str, ...] = Field(
        (),
        description="for jobs on several hosts: the address of each host for the other hosts, in the order of `hosts`;"
        " empty: as the server reaches them",
    )

    @model_validator(mode="after")
    def _check_addresses(self) -> "SshOptions":
        if not self.addresses:
            raise ValueError("no host is given; set `host` or `hosts`")
        if self.host_keys and len(self.addresses) > 1:
            raise ValueError("`host_keys` can be set only for one host; add one backend for each host")
        if self.node_addresses and len(self.node_addresses) != len(self.addresses):
            raise ValueError("`node_addresses` must have one address for each host, in the same order")
        return self

    @property
    def addresses(self) -> tuple[str, ...]:
        return (*((self.host,) if self.host else ()), *self.hosts)


def split_address(address: str) -> tuple[str, str, int]:
    """Split `me@lab:2222` into user, host and port. Defaults: empty user, port 22."""
    user, _, place = address.rpartition("@")
    host, colon, port = place.rpartition(":")
    if not colon or place.endswith("]"):
        host, port = place, "22"
    return user, host.strip("[]"), int(port)
