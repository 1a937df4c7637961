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
    gpu: str = Field(default="", examples=["A10G"])
    gpus: int = Field(default=0, examples=[1])
    region: str = Field(examples=["us-east-1"])
    interruptible: bool = Field(examples=[True])
    state: str = Field(examples=["training"])
    held_until: str | None = Field(
        default=None, examples=[None], description="Until when a machine is kept after its job failed."
    )
    since: str | None = Field(examples=[TIME])
    price_microusd_per_hour: int | None = Field(
        examples=[402_000], description="Of all machines of the attempt; null if it is not known."
    )
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


class HostJob(ApiModel):
    """A job that runs on a host."""

    id: str = Field(examples=[JOB_ID])
    name: str = Field(examples=["digits"])
    attempt: int = Field(examples=[1])
    phase: str = Field(examples=["training"])


class HostGpuDetails(ApiModel):
    """A GPU of a host. Measured values are null while no job on the host measures them."""

    index: int = Field(examples=[0])
    uuid: str = Field(examples=["GPU-1"])
    kind: str = Field(examples=["RTX 4090"])
    memory_gib: float = Field(examples=[24.0])
    driver: str = Field(examples=["580.65"])
    free: bool = Field(examples=[False], description="Whether no job has reserved it.")
    use: float | None = Field(examples=[0.97], description="Utilisation as a fraction.")
    memory_used: int | None = Field(examples=[21_000_000_000], description="Bytes.")
    memory_total: int | None = Field(examples=[25_769_803_776], description="Bytes.")
    temperature_c: float | None = Field(examples=[74.0])
    power_w: float | None = Field(examples=[310.0])


class HostDetails(ApiModel):
    """One of your own machines: its GPUs, what runs there, and why it does not answer, if so."""

    backend: str = Field(examples=["lab"])
    name: str = Field(examples=["rig-1"])
    online: bool = Field(examples=[True])
    problem: str = Field(examples=[""], description="Why the host does not answer; empty if it answers.")
    cpus: float = Field(examples=[32])
    free_cpus: int = Field(examples=[30])
    memory_gib: float = Field(examples=[256.0])
    cpu_use: float | None = Field(examples=[0.61], description="Utilisation as a fraction, if measured.")
    memory_used: int | None = Field(examples=[94_000_000_000], description="Bytes, if measured.")
    memory_total: int | None = Field(examples=[270_000_000_000], description="Bytes, if measured.")
    measured_at: str | None = Field(examples=[TIME])
    gpus: list[HostGpuDetails]
    jobs: list[HostJob] = Field(description="Jobs of the project that run on the host.")
    waiting: int = Field(
        default=0,
        examples=[1],
        description="Waiting jobs of the project that may use the host's backend and need no more GPUs than it has.",
    )


class HostList(ApiModel):
    """Your own machines. `waiting` is the number of the project's jobs that wait for a machine."""

    hosts: list[HostDetails]
    waiting: int = Field(examples=[2])
