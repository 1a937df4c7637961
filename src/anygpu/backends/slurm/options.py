"""Options of the Slurm backend."""

import re
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr, StringConstraints, field_validator

from anygpu.backends.options import Interconnect, interconnect_field
from anygpu.backends.ssh.options import DAY_S, HostAddress

# These words go into lines of a batch script that Slurm reads, so they must have no spaces, quotes or backslashes.
SlurmWord = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.+-]*$", max_length=100)]
Constraint = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.&|()\[\]*,:=-]*$", max_length=200)]
Directory = Annotated[str, StringConstraints(pattern=r"^(~|~?/[A-Za-z0-9/._-]*)?$", max_length=500)]
Line = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x08\x0a-\x1f\x7f]+$", max_length=1000)]
PricePerGpu = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.:+-]+=[0-9]{1,12}$")]

SBATCH_OPTION = re.compile(r"--([a-z][a-z-]*)(=[A-Za-z0-9_.,:@%/*+()\[\]-]+)?")
# Options that change neither how anygpu finds its Slurm jobs nor how it starts and ends them.
ALLOWED_SBATCH_OPTIONS = frozenset(
    {
        "acctg-freq",
        "bell",
        "contiguous",
        "core-spec",
        "cores-per-socket",
        "distribution",
        "exclude",
        "exclusive",
        "extra-node-info",
        "gpu-bind",
        "gpu-freq",
        "hint",
        "licenses",
        "mail-type",
        "mail-user",
        "mem",
        "mem-bind",
        "mem-per-cpu",
        "mem-per-gpu",
        "network",
        "nice",
        "nodelist",
        "oversubscribe",
        "prefer",
        "profile",
        "requeue",
        "reservation",
        "sockets-per-node",
        "switches",
        "threads-per-core",
        "tmp",
        "wckey",
    }
)
# Slurm accepts only one of --cpus-per-task, which anygpu sets, and --cpus-per-gpu.
CPU_OPTIONS = frozenset({"cpus-per-gpu", "cpus-per-task"})

START_LIMIT_S = 1800.0


class SlurmOptions(BaseModel):
    """Options of a Slurm backend: how to reach the cluster, what to ask it for, and what its GPUs cost."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    host: HostAddress | None = Field(
        None,
        description="login node: [user@]name[:port], or a name from ~/.ssh/config; empty: the commands of Slurm run "
        "on the server's machine",
    )
    identity: str = Field(
        "", description="private key file on the server; empty: the server user's keys and ssh-agent"
    )
    private_key: SecretStr = Field(SecretStr(""), description="private key for the login, in OpenSSH format")
    host_keys: tuple[str, ...] = Field(
        (), description="host keys of the login node; empty: the key of the first connection is stored"
    )
    directory: Directory = Field(
        "", description="directory on the cluster's shared file system; empty: ~/.anygpu/slurm"
    )
    partitions: tuple[SlurmWord, ...] = Field(
        (), description="partitions that jobs may use; empty: all that the user may use"
    )
    account: SlurmWord = Field("", description="account of Slurm; empty: the user's default account")
    qos: SlurmWord = Field("", description="quality of service; empty: the default")
    constraint: Constraint = Field("", description="features that nodes must have, as in sbatch --constraint")
    gres: SlurmWord = Field("gpu", description="name of the generic resource that GPUs have on this cluster")
    gpu_kind: str = Field(
        "", max_length=60, description="GPU model of nodes whose generic resource has no type, such as A100"
    )
    sbatch_options: tuple[str, ...] = Field(
        (), description="further options of sbatch, each as --name=value, such as --reservation=course"
    )
    setup: tuple[Line, ...] = Field(
        (), description="shell commands that run on the node before the agent, such as module load cuda"
    )
    python: str = Field("", description="Python for agents and jobs; empty: the first one found on the node")
    interconnect: Interconnect = interconnect_field()
    price_microusd_per_hour: int = Field(
        0, ge=0, description="price of one GPU, or of a job without GPUs, for one hour in micro-dollars"
    )
    gpu_prices: tuple[PricePerGpu, ...] = Field(
        (), description="prices of single GPU types, each as type=micro-dollars per GPU and hour"
    )
    relay: Literal["", "cluster", "directory", "storage"] = Field(
        "cluster",
        description="how agents reach a server to which the nodes have no route: through mailboxes in the "
        "backend's directory (cluster), in the server's relay.directory (directory) or in its bucket "
        "(storage); empty: nodes have a route to the server",
    )
    max_run_s: float = Field(
        0,
        ge=0,
        description="longest time of one Slurm job in seconds; a longer job continues in another one; 0: as long "
        "as the partition allows",
    )
    start_limit_s: float = Field(
        START_LIMIT_S,
        ge=0,
        description="seconds that the nodes of a job may take to boot (the state CONFIGURING); then the agent has "
        "`control.claim_limit_s` to connect",
    )
    lease_s: float = Field(
        DAY_S, ge=60, description="seconds that an agent keeps running without contact with the server"
    )
    poll_s: float = Field(
        5,
        ge=0.2,
        le=300,
        description="seconds between two queries of the queue; some come sooner when jobs begin or end",
    )

    @field_validator("sbatch_options")
    @classmethod
    def _check_sbatch_options(cls, options: tuple[str, ...]) -> tuple[str, ...]:
        for option in options:
            found = SBATCH_OPTION.fullmatch(option)
            if found is None:
                raise ValueError(f"{option[:100]!r} is not an option of sbatch; write it as --name=value")
            if found[1] in CPU_OPTIONS:
                raise ValueError(
                    f"--{found[1]} cannot be set here: a job gets its GPUs' share of the node's CPUs, or as many as it "
                    "asks for with resources.cpus"
                )
            if found[1] not in ALLOWED_SBATCH_OPTIONS:
                raise ValueError(
                    f"--{found[1]} cannot be set here; allowed are: {', '.join(sorted(ALLOWED_SBATCH_OPTIONS))}"
                )
        return options

    @property
    def root(self) -> str:
        """The directory on the cluster for agents and attempts. A leading ~ is the user's home directory there."""
        return self.directory.rstrip("/") or "~/.anygpu/slurm"

    @property
    def may_exclude_nodes(self) -> bool:
        """Whether Slurm may refuse a job although the nodes of an offer are idle."""
        return bool(self.constraint or self.sbatch_options)

    def price_of(self, gpu_type: str) -> int:
        """Return the price of one GPU of this type for one hour, in micro-dollars."""
        prices = dict(price.split("=", 1) for price in self.gpu_prices)
        named = {name.lower(): int(price) for name, price in prices.items()}
        return named.get(gpu_type.lower(), self.price_microusd_per_hour)
