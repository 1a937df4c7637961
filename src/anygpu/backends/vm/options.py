"""What every configured provider of machines can be told. A provider's own `Options` adds its own fields.

A field of type `SecretStr` is a credential: it goes to the vault, is never shown, logged or sent to a machine.
"""

from pydantic import BaseModel, ConfigDict, Field


class VmOptions(BaseModel):
    """Common options. Left out, each provider's own default or the ambient environment decides."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint: str = Field("", description="another address of the provider's API: a proxy, or a simulator")
    regions: tuple[str, ...] = Field((), description="regions to rent in; empty: all the provider lists")
    user: str = Field("", description="who logs in on the machines; empty: as the provider's images have it")
    ssh_port: int = Field(22, ge=1, le=65535, description="port of the machines' SSH server")
    max_machines: int = Field(10, ge=0, description="machines of this backend at one time")
    max_price_microusd_per_hour: int | None = Field(None, ge=0, description="dearest machine allowed")
    ready_s: float = Field(
        600, gt=0, description="seconds from the order to a running machine with an address"
    )
    ssh_s: float = Field(300, gt=0, description="seconds a running machine has until it lets us log in")
    bootstrap_s: float = Field(300, gt=0, description="seconds from the first login to the running agent")
    containers: bool = Field(
        False, description="the machines' image has docker or podman, so they can run a job's image"
    )
    unattended: bool = Field(
        False, description="consent: machines that cannot end by themselves may be rented by this server"
    )
