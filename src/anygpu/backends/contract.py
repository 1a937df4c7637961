"""The interface of a backend: four methods that every backend has, and optional ones.

Each optional ability is a protocol of its own; callers use `isinstance` to find out whether a backend has it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol, runtime_checkable

from anygpu.events.facts import Failure
from anygpu.events.offers import Handle, Offer
from anygpu.spec.sections import Resources


class MachineState(StrEnum):
    """The state of an attempt's machine, as its provider reports it."""

    PENDING = "pending"
    RUNNING = "running"
    EXITED = "exited"  # the machine still exists and may be billed, but will not run again
    GONE = "gone"  # the provider confirms that nothing is left
    ABSENT = "absent"  # not in the provider's list; a new machine may appear there later


@dataclass(frozen=True, slots=True, kw_only=True)
class BilledInterval:
    """The time for which a machine was billed, by its provider's clock."""

    started_at_ms: int
    ended_at_ms: int | None = None
    price_microusd_per_hour: int | None = None  # None: the price of the attempt's own machine


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """What a backend found out about an attempt when it checked it."""

    state: MachineState
    detail: str = ""
    preempted: bool = False
    started_at_ms: int | None = None  # start of billing, by the provider's clock
    ended_at_ms: int | None = None  # end of billing, by the provider's clock
    failure: Failure | None = None  # a start-up step failed for good: the attempt will not run
    end_cause: Failure | None = (
        None  # why the machine has ended, if the provider knows more than that it is lost
    )
    price_microusd_per_hour: int | None = None  # the billed price, if the provider reports it
    duplicates: tuple[BilledInterval, ...] = ()  # further machines of the same name, also billed
    queued: bool = (
        False  # the engine has not started the attempt yet; this time is neither billed nor a late start
    )
    # While the machine is pending: how long the backend lets it start. Only then the limit for its agent begins.
    start_limit_s: float | None = None
    # Of the other nodes of an attempt on several nodes. None: all of them are billed as node 0 is.
    nodes: tuple[BilledInterval, ...] | None = None


HIDDEN_TICKET = "(the one-time ticket of the attempt)"


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchRequest:
    """Everything a backend needs to start an attempt.

    Launching twice with the same name starts only one attempt.
    """

    name: str
    job_id: str
    attempt: int
    ticket: str
    agent_url: str
    resources: Resources
    max_run_s: float | None = None
    lease_s: float = 0
    relay: tuple[
        dict[str, Any], ...
    ] = ()  # the field `relay` of each node's ticket.json; empty: there is no relay
    nodes: int = 1  # how many machines the attempt has; a backend starts all of them or none
    agent_urls: tuple[str, ...] = ()  # of all servers that share the database; empty: only `agent_url`
    image: str = ""  # the container image of the job, for backends that start containers themselves
    organisation: str = ""
    project: str = ""

    def node_name(self, node: int) -> str:
        """Return the name of one machine of the attempt. Node 0 has the name of the attempt."""
        return node_name(self.name, node)

    def direct_ticket(self) -> dict[str, Any]:
        """Return the fields of `ticket.json` for an agent that can reach the servers directly."""
        ticket = {"protocol": 1, "url": self.agent_url, "name": self.name, "ticket": self.ticket}
        return {**ticket, "urls": list(self.agent_urls)} if self.agent_urls else ticket

    def without_secrets(self) -> "LaunchRequest":
        """Return the request with a description in place of the ticket and of the relay's signed addresses."""
        hidden = {"kind": "(the addresses of the attempt's mailbox)"}
        return replace(self, ticket=HIDDEN_TICKET, relay=tuple(hidden for _ in self.relay))


NODE_SUFFIX = "-n"


def node_name(name: str, node: int) -> str:
    """Return the name of one machine of an attempt: the attempt's name, with `-n1`, `-n2`, … for further nodes."""
    return f"{name}{NODE_SUFFIX}{node}" if node else name


def split_node_name(name: str) -> tuple[str, int]:
    """Split the name of a machine into the name of its attempt and the number of the node."""
    attempt, mark, number = name.rpartition(NODE_SUFFIX)
    return (attempt, int(number)) if mark and number.isdecimal() and number.isascii() else (name, 0)


class Backend(Protocol):
    """An adapter to a system that can run attempts.

    Every method must accept a handle (reference to an attempt) of which only the name is known.
    """

    name: str
    probe_every_s: float  # interval between probes of a healthy attempt; 0: probing is free

    async def offers(self, need: Resources) -> Sequence[Offer]: ...

    async def launch(self, launch: LaunchRequest, offer: Offer) -> Handle:
        """Start an attempt. Does nothing if an attempt of this name was started before.

        After a LaunchError nothing was started. After any other error, the attempt may run.
        """
        ...

    async def probe(self, handle: Handle) -> Observation: ...

    async def terminate(self, handle: Handle) -> None:
        """End the machine and everything on it. May be repeated; a later `probe` confirms the end."""
        ...


@runtime_checkable
class SupportsInventory(Protocol):
    """A backend that can list its existing attempts, so that machines without an owner can be found and ended."""

    async def inventory(self) -> Sequence[Handle]: ...


@runtime_checkable
class SupportsDelivery(Protocol):
    """A backend that can send the reports that a dead agent left on its machine."""

    async def deliver(self, handle: Handle) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountStatus:
    """Whether a backend's credentials work, and the balance and quota of the account."""

    valid: bool
    message: str = ""  # why the credentials fail and what to do; else their owner
    balance_microusd: int | None = None
    quota: str = ""


@runtime_checkable
class SupportsAccountCheck(Protocol):
    """A backend that can check its credentials with the provider."""

    async def check(self) -> AccountStatus: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """A resource that is left without a machine and may be billed: an address, a disk, a key."""

    kind: str  # address | disk | key | group
    id: str
    name: str  # the attempt for which it was created; empty: unknown
    region: str = ""


@runtime_checkable
class SupportsLeftovers(Protocol):
    """A backend that can list and remove leftover resources. It lists only those that anygpu created."""

    async def leftovers(self) -> Sequence[Leftover]: ...

    async def remove(self, leftover: Leftover) -> None:
        """Remove the resource. Succeeds if it no longer exists."""
        ...


@runtime_checkable
class SupportsMetering(Protocol):
    """A backend that can read the cost of an attempt from the provider.

    The cost is None while the provider does not know it yet.
    """

    async def metered_microusd(self, handle: Handle) -> int | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ShellLogin:
    """The address, user and keys with which a person logs in to an attempt's machine over SSH."""

    host: str
    port: int
    user: str
    private_key: str  # OpenSSH format
    host_keys: tuple[str, ...] = ()


@runtime_checkable
class SupportsShell(Protocol):
    """A backend that can give people SSH access to the machine of an attempt."""

    async def shell(self, handle: Handle) -> ShellLogin: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HostGpu:
    """A GPU of one of the user's own machines. `free` tells whether no attempt has reserved it."""

    uuid: str
    kind: str
    memory_gib: float
    driver: str
    free: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class HostReport:
    """One of the user's own machines as it answered last. `problem` says why it does not answer, if so.

    `offer` is the name that the machine has in offers.
    """

    offer: str
    problem: str = ""
    cpus: float = 0
    free_cpus: int = 0
    memory_gib: float = 0
    gpus: tuple[HostGpu, ...] = ()


@runtime_checkable
class SupportsHosts(Protocol):
    """A backend of machines that exist all the time: it can describe each of them."""

    async def hosts(self) -> Sequence[HostReport]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeRequest:
    """The request that a backend sends to its provider to start an attempt, as text and without secrets."""

    title: str  # what it is and where it goes, such as "sbatch script" or "POST /v1/instances"
    language: str  # json | yaml | sh: how to highlight the text
    text: str

    @classmethod
    def of_json(cls, title: str, body: Any) -> "NativeRequest":
        return cls(title=title, language="json", text=json.dumps(body, indent=2, ensure_ascii=False) + "\n")


@runtime_checkable
class SupportsNativeRequest(Protocol):
    """A backend that can show the request of a launch without sending it.

    The ticket and every credential in the text are replaced by a description.
    """

    async def native_requests(self, launch: LaunchRequest, offer: Offer) -> Sequence[NativeRequest]: ...
