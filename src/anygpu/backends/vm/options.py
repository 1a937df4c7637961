"""Options that all VM providers share, and the intervals and timeouts that follow from them.

A field of type `SecretStr` is a credential: it is stored in the vault, and never shown, logged or sent to a
machine.
"""

from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field

from anygpu.backends.ssh.connection import SshTiming


class VmOptions(BaseModel):
    """Options of every VM provider. Each provider adds its own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint: str = Field("", description="address of the provider's API, for a proxy or a simulator")
    regions: tuple[str, ...] = Field((), description="regions to rent in; empty: all regions")
    user: str = Field(
        "", description="login user of the machines; empty: the default of the provider's images"
    )
    ssh_port: int = Field(22, ge=1, le=65535, description="port of the machines' SSH server")
    max_machines: int = Field(10, ge=0, description="maximum number of machines at one time")
    max_nodes: int | None = Field(
        None,
        ge=1,
        description="machines that one job may have; their network must let them reach each other. Empty: as many as"
        " max_machines on EC2, one elsewhere",
    )
    max_price_microusd_per_hour: int | None = Field(
        None, ge=0, description="maximum price of a machine, in micro-dollars per hour"
    )
    ready_s: float = Field(600, gt=0, description="seconds that a new machine has to run and get an address")
    ssh_s: float = Field(300, gt=0, description="seconds that a running machine has to accept the login")
    bootstrap_s: float = Field(
        300, gt=0, description="seconds from the first login to the start of the agent"
    )
    containers: bool = Field(
        False, description="the machines' image has docker or podman, so it can run container jobs"
    )
    unattended: bool = Field(
        False, description="allow machines that cannot end by themselves if the server stops"
    )


SSH_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class VmTiming:
    """Poll intervals, timeouts and lifetimes, in seconds."""

    offers_max_age_s: float = 60  # how long offers are cached
    poll_fast_s: float = 0.5  # list interval after a change
    poll_fast_for_s: float = 120  # how long that interval applies
    poll_medium_s: float = 5  # list interval while a machine starts or ends slowly
    poll_idle_s: float = 30  # list interval when no change is expected
    address_timeout_s: float = 600  # from creation until the machine runs and has an address
    host_keys_timeout_s: float = 30  # wait for the provider's host keys; then pin the first key seen
    delivery_timeout_s: float = 60  # to send a dead agent's reports
    lease_s: float = 900  # an agent that cannot reach the server for this long stops
    default_run_s: float = 25_200  # run time of jobs without a limit
    life_margin_s: float = 3_600  # a machine ends by itself this long after the run time

    # A machine is reported as running long before its SSH server is up, so the login is retried for 300 s.
    ssh: SshTiming = field(default_factory=lambda: SshTiming(tries=SSH_TRIES, retry_interval_s=60))

    def life_s(self, max_run_s: float | None) -> float:
        return (max_run_s or self.default_run_s) + self.life_margin_s


def timing_from_options(options: VmOptions) -> VmTiming:
    patience = SshTiming(
        tries=SSH_TRIES, retry_interval_s=options.ssh_s / SSH_TRIES, bootstrap_s=options.bootstrap_s
    )
    return VmTiming(address_timeout_s=options.ready_s, ssh=patience)
