"""The interface of a relay: mailboxes that an agent can write, and that the server can read.

An agent behind a relay sends the requests of docs/reference/agent-protocol.md as messages. Each attempt has a mailbox
with a fixed number of channels; a channel is one request and one answer, which are replaced.
`anygpu.agent.link.mailbox` has the format of messages, and `anygpu.server.relay` the loop that answers them.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

from anygpu.agent.link import mailbox
from anygpu.errors import KindUnusable

RelayTicket = dict[str, Any]  # the field `relay` of an agent's ticket.json
# Offers of machines behind a relay have at least this lease (`Offer.lease_s`). A message takes seconds, and up to a
# minute through a network file system that remembers what it has read.
RELAY_LEASE_S = 180.0


class MailboxFile(NamedTuple):
    """A message in a mailbox."""

    mailbox: str
    channel: str
    kind: str  # request | answer

    @property
    def name(self) -> str:
        return mailbox.file_name(self.channel, self.kind)


class RelayTransport(Protocol):
    """Mailboxes in a shared directory or in object storage. A mailbox has the name of its attempt.

    Errors are AnygpuError (the store does not answer) or OSError; the caller tries again later.
    """

    poll_s: float  # seconds between two calls of `versions`
    busy_poll_s: float  # the same while messages arrive; shorter where a call costs little

    async def open(self, mailbox: str, *, nodes: int = 1) -> Sequence[RelayTicket]:
        """Create the mailbox, and return what each node's ticket.json has as `relay`.

        May be repeated. Keeps the messages of a mailbox that exists.
        """
        ...

    async def versions(self, mailboxes: Mapping[str, int]) -> Mapping[str, Mapping[str, str]]:
        """Return {mailbox: {channel: version of its request}} for mailboxes that are given with their numbers of nodes.

        One call of the store serves all mailboxes. A version changes when the request is replaced.
        """
        ...

    def read(self, file: MailboxFile) -> AsyncGenerator[bytes, None]:
        """Yield the content of a message in pieces; nothing if there is no such message."""
        ...

    async def write(self, file: MailboxFile, pieces: AsyncIterator[bytes]) -> None:
        """Replace a message. The agent sees the whole message or the one before."""
        ...

    async def renew(self, mailbox: str, node: int, expires_at: float) -> RelayTicket | None:
        """Return new fields for the ticket of a node whose signed URLs expire at `expires_at` (Unix seconds).

        None if they are still valid for long enough.
        """
        ...

    async def mailboxes(self) -> Sequence[str]:
        """Return the names of all mailboxes, also of those that other servers may have made."""
        ...

    async def remove(self, mailbox: str) -> None:
        """Remove a mailbox with everything in it. Succeeds if it does not exist."""
        ...


@runtime_checkable
class SupportsRelay(Protocol):
    """A backend whose agents may have no route to the server. `relay` is None if they have one."""

    @property
    def relay(self) -> RelayTransport | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Relays:
    """The relays of the server's settings. None: not configured."""

    directory: RelayTransport | None = None  # `relay.directory`
    storage: RelayTransport | None = None  # the bucket of `store.blobs`
    poll_s: float = 1.0  # `relay.poll_s`, for relays that a backend opens itself

    def choose(self, kind: str) -> RelayTransport | None:
        """Return the relay that an option or setting names: `directory`, `storage`, or "" for none."""
        if kind == "":
            return None
        chosen = {"directory": self.directory, "storage": self.storage}.get(kind)
        if chosen is None:
            what = (
                f"The relay {kind!r} is not configured"
                if kind in HINTS
                else f"There is no relay {kind[:100]!r}"
            )
            raise KindUnusable(f"{what}.", hint=HINTS.get(kind, "Choose directory or storage."))
        return chosen


NO_RELAYS = Relays()
HINTS = {
    "directory": "Set relay.directory to a directory that the server and the machines share.",
    "storage": "Set store.blobs to a bucket (s3://, gs:// or az://), or choose another relay.",
}


def lease_with_relay(lease_s: float, relay: str) -> float:
    """Return the lease of an offer: at least RELAY_LEASE_S if the option `relay` names one ("": none)."""
    return max(lease_s, RELAY_LEASE_S) if relay else lease_s


def find_relay(backend: object) -> RelayTransport | None:
    """Return the relay of a backend; None if its agents reach the server without one."""
    return backend.relay if isinstance(backend, SupportsRelay) else None
