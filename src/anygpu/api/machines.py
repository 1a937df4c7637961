"""API models for the machines that exist at the providers."""

from pydantic import Field

from anygpu.api.base import JOB_ID, MACHINE, TIME, ApiModel


class MachineDetails(ApiModel):
    """A machine of an attempt, or one that no attempt owns (`owner` is `nobody`)."""

    name: str = Field(examples=[MACHINE])
    backend: str = Field(examples=["aws"])
    owner: str = Field(examples=["attempt"])
    job: str | None = Field(examples=[JOB_ID])
    job_name: str | None = Field(examples=["digits"])
    attempt: int | None = Field(examples=[1])
    offer: str = Field(examples=["g5.xlarge"])
    region: str = Field(examples=["us-east-1"])
    interruptible: bool = Field(examples=[True])
    state: str = Field(examples=["training"])
    since: str | None = Field(examples=[TIME])
    price_microusd_per_hour: int = Field(examples=[402_000])
    cost_microusd: int | None = Field(examples=[6_700])


class LeftoverResource(ApiModel):
    """An address, disk, key or security group that remained after its machine ended."""

    backend: str = Field(examples=["aws"])
    kind: str = Field(examples=["address"])
    id: str = Field(examples=["eipalloc-1"])
    name: str = Field(examples=[MACHINE])
    region: str = Field(examples=["us-east-1"])


class MachineList(ApiModel):
    """Machines as the providers list them now. `silent` maps each backend that did not answer to the reason."""

    machines: list[MachineDetails]
    leftovers: list[LeftoverResource]
    silent: dict[str, str] = Field(examples=[{}])


class SweepReport(ApiModel):
    """The machines and other resources without an owner that are being removed. `troubles` lists failed removals."""

    machines: list[MachineDetails] = Field(examples=[[]])
    leftovers: list[LeftoverResource]
    troubles: dict[str, str] = Field(examples=[{}])


class ShellCredentials(ApiModel):
    """Address and key for SSH access to the machine of a job."""

    host: str = Field(examples=["203.0.113.7"])
    port: int = Field(examples=[22])
    user: str = Field(examples=["ubuntu"])
    private_key: str = Field(examples=["…"])
    host_keys: list[str] = Field(examples=[[]])
