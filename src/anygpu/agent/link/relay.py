"""Reach the server through mailboxes (see `mailbox`), for machines that have no route to it.

`RelayConnection` has the interface of `HttpConnection`, so everything above it works as over HTTP. The requests are the
same, and so are the answers; only the exchange takes seconds instead of milliseconds.
"""

from __future__ import annotations

import io
import os
import threading
import time

from anygpu.agent.link import mailbox
from anygpu.agent.link.client import ServerAddress
from anygpu.agent.link.http11 import HttpConnection, StreamedResponse, Unreachable
from anygpu.agent.link.mailbox import ANSWER, REQUEST, BadMessage, encode_head, open_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import IO, Any, Union

    from anygpu.agent.link.http11 import Body, Connection

    Mailbox = Union["DirectoryMailbox", "StorageMailbox"]
    Answer = tuple[dict[str, Any], IO[bytes]]

FIRST_POLL_S = 0.05
POLL_S = 0.5
EXTRA_WAIT_S = (
    30.0  # added to the time limit of a request, because the server looks into mailboxes only now and then
)
LARGE_BYTES = 2**20  # larger messages are removed as soon as they are no longer needed
# The slowest connection between the server and the directory: a checkpoint of 256 MiB takes 18 minutes.
SLOWEST_BYTES_PER_S = 250_000
PADDINGS = 8


class DirectoryMailbox:
    """A mailbox in a directory that the server can read and write too."""

    def __init__(self, path: str) -> None:
        self._path = path

    def write(self, number: int, channel: str, head: bytes, body: Body) -> None:
        blocks = [body] if isinstance(body, bytes) else body.blocks()
        directory = self._open()
        try:
            mailbox.replace_file(directory, mailbox.file_name(channel, REQUEST), _chain(head, blocks))
        except OSError as error:
            raise Unreachable(
                f"the request cannot be written to the relay directory {self._path}: {error}. Check its "
                "permissions and its free space"
            ) from error
        finally:
            os.close(directory)

    def read(self, number: int, channel: str) -> Answer | None:
        """Return head and body of the answer that the channel has now; None if it has none."""
        directory = self._open()
        try:
            file = mailbox.open_regular_file(directory, mailbox.file_name(channel, ANSWER))
        except OSError as error:
            raise Unreachable(
                f"the answer in the relay directory {self._path} cannot be read: {error}. Check its permissions"
            ) from error
        finally:
            os.close(directory)
        if file is None:
            return None
        try:
            return open_message(file), file
        except (BadMessage, OSError):
            file.close()
            return None

    def answer_progress(self, channel: str) -> int:
        """Return how many bytes of the next answer the server has written so far."""
        directory = self._open()
        try:
            name = mailbox.draft_name(mailbox.file_name(channel, ANSWER))
            return os.stat(name, dir_fd=directory, follow_symlinks=False).st_size
        except OSError:
            return 0
        finally:
            os.close(directory)

    def clean(self, channel: str, kind: str) -> None:
        """Remove a large message. If this fails, the message stays and does no harm."""
        try:
            directory = self._open()
        except Unreachable:
            return
        try:
            mailbox.remove_file(directory, mailbox.file_name(channel, kind))
        except OSError:
            return
        finally:
            os.close(directory)

    def _open(self) -> int:
        try:
            return os.open(self._path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise Unreachable(
                f"the relay directory {self._path} cannot be opened: {error}. Check that it is mounted on this machine"
            ) from error


class StorageMailbox:
    """A mailbox in object storage. The agent has signed URLs: PUT for its requests, GET for the answers."""

    def __init__(self, channels: list[dict[str, str]], headers: dict[str, str]) -> None:
        self.channels = channels
        self._headers = headers
        self._etags: dict[int, str] = {}
        self._connections: dict[
            tuple[int, str], HttpConnection
        ] = {}  # by channel, which one thread uses at a time

    def write(self, number: int, channel: str, head: bytes, body: Body) -> None:
        content = b"".join(_chain(head, [body] if isinstance(body, bytes) else body.blocks()))
        headers = {"Content-Type": "application/octet-stream", **self._headers}
        response, answer = self._exchange(number, "PUT", REQUEST, headers, content)
        if response.status >= 300:
            raise Unreachable(
                f"the object storage refused a message of the relay: {response.status} {_excerpt(answer)}. The "
                "signed URL may have expired"
            )

    def read(self, number: int, channel: str) -> Answer | None:
        known = self._etags.get(number)
        headers = {"If-None-Match": known} if known else {}
        response, content = self._exchange(number, "GET", ANSWER, headers, b"")
        if response.status != 200:
            return None  # not changed (304), or there is none yet (404, and 403 where listing is not allowed)
        self._etags[number] = response.headers.get("etag", "")
        file = io.BytesIO(content)
        try:
            head = mailbox.parse_head(file.readline(mailbox.MAX_HEAD_BYTES))
        except BadMessage:
            return None
        return (head, file) if len(content) - file.tell() == head["size"] else None

    def answer_progress(self, channel: str) -> int:
        """Return 0: answers in object storage are small."""
        return 0

    def clean(self, channel: str, kind: str) -> None:
        """Do nothing: messages in object storage are small, because files have signed URLs of their own."""

    def _exchange(
        self, number: int, method: str, kind: str, headers: dict[str, str], content: bytes
    ) -> tuple[StreamedResponse, bytes]:
        """Send a request to a signed URL of a channel, and return the response and its body."""
        origin, target = _split_origin(self.channels[number][kind])
        connection = self._connections.setdefault((number, origin), HttpConnection(lambda: origin))
        response = connection.request(method, target, headers, content, 30.0)
        try:
            body = response.body()
        except Unreachable:
            connection.close()
            raise
        if response.headers.get("connection", "").lower() == "close":
            connection.close()
        return response, body


class RelayAddress(ServerAddress):
    """The server, as it is reached through a mailbox.

    Each request takes a free channel, until its answer has arrived. There are more channels than threads that send
    requests. `save` stores renewed URLs, so that an agent that is started again has them.
    """

    is_remote = True

    def __init__(self, ticket: dict[str, Any], node: int, save: Callable[[dict[str, Any]], None]) -> None:
        super().__init__("", is_remote=True)
        self._ticket = ticket
        self._save = save
        self._mailbox = make_mailbox(ticket)
        self._poll_s = float(ticket.get("poll_s") or POLL_S)
        self._channels = mailbox.channel_names(node)
        self._free = list(range(len(self._channels)))
        # Channels whose newest request got no answer. Others are preferred.
        self._unanswered: set[int] = set()
        self._session = os.urandom(8).hex()
        self._count = 0
        self._changed = threading.Condition()

    def connect(self) -> Connection:
        return RelayConnection(self, "")

    def connect_to(self, url: str) -> Connection:
        return RelayConnection(self, url) if url.startswith("/") else HttpConnection(lambda: url)

    def url(self) -> str:
        raise Unreachable("the server has no address here: it is reached through the relay")

    def send(self, method: str, path: str, headers: dict[str, str], body: Body, timeout_s: float) -> Answer:
        """Send a request through a free channel. Return the head of its answer, and a file with the body.

        The server must read a whole request before it answers, so a large one gets more time. Both sides look for
        messages every `poll_s` seconds.
        """
        size = len(body) if isinstance(body, bytes) else body.size
        limit_s = timeout_s + EXTRA_WAIT_S + 2 * self._poll_s + size / SLOWEST_BYTES_PER_S
        number, request_id, padding = self._take_channel(time.monotonic() + limit_s)
        head = {"id": request_id, "method": method, "path": path, "headers": headers, "size": size}
        if "expires_at" in self._ticket:
            head["expires_at"] = self._ticket["expires_at"]
        try:
            channel = self._channels[number]
            self._mailbox.write(number, channel, encode_head(head, padding), body)
            answer, file = self._wait_for_answer(number, request_id, time.monotonic() + limit_s)
            if max(size, answer["size"]) > LARGE_BYTES:
                self._mailbox.clean(channel, REQUEST)  # first: a request without an answer is answered again
            if answer["size"] > LARGE_BYTES:
                self._mailbox.clean(channel, ANSWER)
            self._unanswered.discard(number)
        finally:
            self._return_channel(number)
        self._renew(answer.get("relay"))
        return answer, file

    def _wait_for_answer(self, number: int, request_id: str, deadline: float) -> Answer:
        """Wait until the answer is there. While the server writes a large one, the agent waits for longer."""
        pause_s, progress = FIRST_POLL_S, 0
        while True:
            found = self._read_answer(number, deadline)
            if found is not None:
                if mailbox.answers(found[0], request_id):
                    return found
                found[1].close()
            written = self._answer_progress(number)
            if written != progress:
                progress, deadline = written, max(deadline, time.monotonic() + EXTRA_WAIT_S)
            if time.monotonic() >= deadline:
                raise Unreachable(
                    "the server has not answered through the relay. Check that it runs, and that it can read the "
                    "directory or bucket of the relay"
                )
            time.sleep(pause_s)
            pause_s = min(pause_s * 1.5, self._poll_s)

    def _read_answer(self, number: int, deadline: float) -> Answer | None:
        """Return the answer that a channel has now; None also if the directory or bucket does not answer."""
        try:
            return self._mailbox.read(number, self._channels[number])
        except Unreachable:
            if time.monotonic() >= deadline:
                raise
            return None

    def _answer_progress(self, number: int) -> int:
        try:
            return self._mailbox.answer_progress(self._channels[number])
        except Unreachable:
            return 0

    def _take_channel(self, deadline: float) -> tuple[int, str, int]:
        with self._changed:
            while not self._free:
                if time.monotonic() >= deadline:
                    raise Unreachable("every channel of the relay waits for an answer of the server")
                self._changed.wait(1.0)
            self._count += 1
            number = min(self._free, key=lambda each: (each in self._unanswered, each))
            self._free.remove(number)
            self._unanswered.add(number)
            return number, f"{self._session}-{self._count}", self._count % PADDINGS

    def _return_channel(self, number: int) -> None:
        with self._changed:
            self._free.append(number)
            self._changed.notify()

    def _renew(self, ticket: dict[str, Any] | None) -> None:
        """Use new signed URLs, which an answer brings before the old ones expire."""
        if not ticket or not isinstance(self._mailbox, StorageMailbox):
            return
        with self._changed:
            self._ticket = {**self._ticket, **ticket}
            self._mailbox.channels = self._ticket["channels"]
            try:
                self._save(self._ticket)
            except OSError:
                return  # the disk is full: this agent has the URLs in memory


class RelayConnection:
    """A connection to the server through a mailbox, with the interface of `HttpConnection`."""

    url = "relay"

    def __init__(self, address: RelayAddress, prefix: str) -> None:
        self._address = address
        self._prefix = prefix
        self._file: IO[bytes] | None = None  # the body of the newest answer

    def request(
        self, method: str, path: str, headers: dict[str, str], body: Body, timeout_s: float
    ) -> StreamedResponse:
        self.close()
        answer, file = self._address.send(method, self._prefix + path, headers, body, timeout_s)
        if answer["size"] <= LARGE_BYTES:
            with file:
                file = io.BytesIO(file.read(answer["size"]))
        self._file = file
        return _as_response(answer, file)

    def fail(self) -> None:
        self.close()

    def close(self) -> None:
        """Close the answer. The mailbox itself is always open."""
        file, self._file = self._file, None
        if file is not None:
            file.close()


def make_mailbox(ticket: dict[str, Any]) -> Mailbox:
    if ticket["kind"] == "directory":
        return DirectoryMailbox(os.path.expanduser(ticket["path"]))
    return StorageMailbox(ticket["channels"], ticket.get("headers") or {})


def _as_response(answer: dict[str, Any], file: IO[bytes]) -> StreamedResponse:
    headers = {str(name).lower(): str(value) for name, value in dict(answer.get("headers") or {}).items()}
    headers["content-length"] = str(answer["size"])
    headers.pop("transfer-encoding", None)
    return StreamedResponse(int(answer["status"]), headers, file)


def _split_origin(url: str) -> tuple[str, str]:
    """Split a URL before its path."""
    scheme, _, rest = url.partition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}://{host}", slash + path


def _excerpt(answer: bytes) -> str:
    return " ".join(answer[:300].decode("utf-8", "replace").split())


def _chain(head: bytes, blocks: Iterable[bytes]) -> Iterator[bytes]:
    yield head
    yield from blocks
