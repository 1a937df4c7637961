"""Options that all VM providers share, and the timing of the VM lifecycle that follows from them.

A field of type `SecretStr` is a credential: it goes to the vault, is never shown, logged or sent to a machine.
"""

from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field

from anygpu.backends.ssh.connection import SshTiming


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


SSH_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class VmTiming:
    """How often to list, how long each step may take, how long a machine may live."""

    offers_max_age_s: float = 60  # how long prices and types are remembered
    poll_fast_s: float = 0.5  # between two listings while something has just changed
    poll_fast_for_s: float = 120  # how long such a hurry lasts
    poll_medium_s: float = 5  # between two listings while a machine comes or goes for longer than that
    poll_idle_s: float = 30  # between two listings when nothing is expected to change
    address_timeout_s: float = 600  # from the order to a running machine that has an address
    host_keys_timeout_s: float = (
        30  # for the provider to show a machine's host keys, before the key seen first is pinned
    )
    delivery_timeout_s: float = 60  # to send what a dead agent left behind
    lease_s: float = 900  # how long an agent on a rented machine may be out of reach before it stops
    default_run_s: float = 25_200  # how long a machine is wanted when the job does not say
    life_margin_s: float = 3_600  # how much later a machine that nobody ended ends by itself

    # A machine counts as running long before its SSH server does: 300 s of tries, none of them costs anything.
    ssh: SshTiming = field(default_factory=lambda: SshTiming(tries=SSH_TRIES, retry_interval_s=60))

    def life_s(self, max_run_s: float | None) -> float:
        return (max_run_s or self.default_run_s) + self.life_margin_s


def timing_from_options(options: VmOptions) -> VmTiming:
    """As a backend's configuration has it."""
    patience = SshTiming(
        tries=SSH_TRIES, retry_interval_s=options.ssh_s / SSH_TRIES, bootstrap_s=options.bootstrap_s
    )
    return VmTiming(address_timeout_s=options.ready_s, ssh=patience)
