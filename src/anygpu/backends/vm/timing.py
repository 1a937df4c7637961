"""How patient the lifecycle of rented machines is. All in seconds; the defaults are DESIGN's."""

from dataclasses import dataclass, field

from anygpu.backends.ssh.login import SshTiming
from anygpu.backends.vm.options import VmOptions

SSH_TRIES = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class VmTiming:
    """How often to list, how long each step may take, how long a machine may live."""

    offers_s: float = 60  # how long prices and types are remembered
    hurry_s: float = 0.5  # between two listings while something has just changed
    doubt_s: float = 120  # how long such a hurry lasts
    doubt_every_s: float = 5  # between two listings while a machine comes or goes for longer than that
    calm_s: float = 30  # between two listings when nothing is expected to change
    address_s: float = 600  # from the order to a running machine that has an address
    host_keys_s: float = (
        30  # for the provider to show a machine's host keys, before the key seen first is pinned
    )
    deliver_s: float = 60  # to send what a dead agent left behind
    lease_s: float = 900  # how long an agent on a rented machine may be out of reach before it stops
    run_s: float = 25_200  # how long a machine is wanted when the job does not say
    life_margin_s: float = 3_600  # how much later a machine that nobody ended ends by itself

    # A machine counts as running long before its SSH server does: 300 s of tries, none of them costs anything.
    ssh: SshTiming = field(default_factory=lambda: SshTiming(tries=SSH_TRIES, between_s=60))

    def life_s(self, max_run_s: float | None) -> float:
        return (max_run_s or self.run_s) + self.life_margin_s


def timing_of(options: VmOptions) -> VmTiming:
    """As a backend's configuration has it."""
    patience = SshTiming(
        tries=SSH_TRIES, between_s=options.ssh_s / SSH_TRIES, bootstrap_s=options.bootstrap_s
    )
    return VmTiming(address_s=options.ready_s, ssh=patience)
