"""How to get onto a machine, and how patient to be about it."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class Login:
    """Where to knock, as whom, and how the machine proves itself."""

    machine: str  # what people call it: the name in every message
    host: str
    port: int = 22
    user: str = ""
    private_key: str = field(
        default="", repr=False
    )  # OpenSSH format; empty: a file, or the person's own keys
    identity: str = ""  # a private key file of the person who runs the server
    host_keys: tuple[str, ...] = ()  # known beforehand; empty: pinned at first sight
    pin: str = ""  # under which name a key seen first is kept; empty: the address

    @property
    def pin_name(self) -> str:
        """Rented machines take over each other's addresses: they are pinned by attempt, boxes by address."""
        return self.pin or f"{self.host}-{self.port}"

    @property
    def own(self) -> bool:
        """A box of the person's own, reached as their `ssh` would: their keys, agent and ~/.ssh/config."""
        return not self.private_key


@dataclass(frozen=True, slots=True, kw_only=True)
class SshTiming:
    """Seconds. A machine is given up after `tries` tries and `tries * between_s`: quick refusals cost no patience."""

    tries: int = 5
    between_s: float = 10
    connect_s: float = 15  # one try, from the first packet to the login
    command_s: float = 300
    bootstrap_s: float = 300  # from the first login to the agent
    keepalive_s: float = 5
    keepalive_misses: int = 3
    again_first_s: float = 0.2
    broken_first_s: float = 0.8  # after a break: by then a provider has told which machines are gone for good
    again_most_s: float = 10
    handshakes: int = 16  # at one time: each is a few milliseconds of computing in the server's only loop

    @property
    def patience_s(self) -> float:
        return self.tries * self.between_s
