"""Messages in mailboxes: how an agent without a route to the server exchanges requests and answers with it.

A mailbox belongs to one attempt and has a fixed number of channels. A channel is two files, one with a request and
one with its answer. Both are replaced as a whole, so the number of files stays the same however long a job runs.

A message is one line of JSON, its head, and a body of `size` bytes. The head of a request has `id`, `method`, `path`
and `headers`; the head of an answer has the `id` of its request, `status` and `headers`.

Agents can write to a mailbox, and so can the jobs that they run. So a file in it can be anything: a link, a pipe, a
file that never ends. `MailboxDirectory` opens regular files only, and follows no link below the relay's directory.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from typing import IO, Any

CHANNELS = 5  # the claim and the end, reports, orders, uploads, and one to spare
REQUEST, ANSWER = "request", "answer"
MAX_HEAD_BYTES = 65536
BLOCK_BYTES = 262144
REMOVE_STEP_S = 0.2
_REPLACED = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ESTALE)


class BadMessage(Exception):
    """A file in a mailbox is not a complete message."""


def channel_names(node: int = 0) -> list[str]:
    """Return the names of the channels of a node (0 for an attempt on one machine)."""
    return [f"{node}-{number}" for number in range(CHANNELS)]


def file_name(channel: str, kind: str) -> str:
    return f"{channel}.{kind}"


def draft_name(name: str) -> str:
    """Return the name under which a file is written, before it gets its own name."""
    return f".{name}.draft"


def encode_head(head: dict[str, Any], padding: int = 0) -> bytes:
    """Return the head of a message as a line, with `padding` spaces at its end.

    With another padding each time, two messages in a row differ in size. So a file system that stores times in whole
    seconds shows the change too.
    """
    return json.dumps(head, separators=(",", ":")).encode() + b" " * padding + b"\n"


def parse_head(line: bytes) -> dict[str, Any]:
    """Return the head of a message. Raise BadMessage if `line` is not one."""
    if not line.endswith(b"\n"):
        raise BadMessage("the message has no head that ends with a newline")
    try:
        head = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadMessage(f"the head of the message is not JSON: {error}") from error
    if not isinstance(head, dict) or not isinstance(head.get("id"), str):
        raise BadMessage("the head of the message has no id")
    size = head.get("size")
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise BadMessage("the head of the message does not say how long its body is")
    return head


def answers(head: dict[str, Any], request_id: str) -> bool:
    """Return whether a message is the answer to this request.

    An answer to an earlier request, which the agent has given up, may arrive later in the same channel.
    """
    return bool(head["id"] == request_id)


def open_message(file: IO[bytes]) -> dict[str, Any]:
    """Read the head of a message, and leave `file` at the beginning of its body. Raise BadMessage."""
    head = parse_head(file.readline(MAX_HEAD_BYTES))
    if os.fstat(file.fileno()).st_size - file.tell() != head["size"]:
        raise BadMessage("the body of the message is not complete")
    return head


class MailboxDirectory:
    """The mailboxes in a directory, each in a directory of its own. Methods block: call them in a thread.

    The files of a mailbox get the permissions of the directory, so that a group that may use the directory may also
    use the mailboxes.
    """

    def __init__(self, root: str) -> None:
        self.root = root

    def create(self, mailbox: str) -> str:
        """Create the mailbox, unless it exists, and return its path.

        Raise an error if other users could put another directory in its place: its messages contain secrets.
        """
        os.makedirs(self.root, mode=0o700, exist_ok=True)
        mode = stat.S_IMODE(os.stat(self.root).st_mode)
        if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
            raise PermissionError(
                errno.EACCES,
                "every user may replace files in it; remove that right with chmod o-w",
                self.root,
            )
        path = os.path.join(self.root, _checked(mailbox))
        with contextlib.suppress(FileExistsError):
            os.mkdir(path, 0o700)
        directory = self._open(mailbox)  # raises an error if it is something else than a directory
        try:
            if os.fstat(directory).st_uid != os.geteuid():
                raise PermissionError(errno.EACCES, "another user has created it; remove it", path)
            os.fchmod(directory, mode & 0o2770)
        finally:
            os.close(directory)
        return path

    def names(self, limit: int = 100_000) -> list[str]:
        """Return the names of the directories below the root, at most `limit`."""
        found: list[str] = []
        try:
            with os.scandir(self.root) as entries:
                for entry in entries:
                    if len(found) >= limit:
                        break
                    if entry.is_dir(follow_symlinks=False):
                        found.append(entry.name)
        except FileNotFoundError:
            return []
        return found

    def versions(self, mailboxes: Mapping[str, int]) -> dict[str, dict[str, str]]:
        """Return {mailbox: {channel: version of its request}}. `mailboxes` has the number of nodes of each.

        The version changes when the file is replaced. Only files with the names of channels are looked at, so it does
        not matter how many others there are.
        """
        return {mailbox: self._request_versions(mailbox, nodes) for mailbox, nodes in mailboxes.items()}

    def _request_versions(self, mailbox: str, nodes: int) -> dict[str, str]:
        try:
            directory = self._open(mailbox)
        except OSError:
            return {}
        channels = [channel for node in range(nodes) for channel in channel_names(node)]
        try:
            # A network file system shows the newest names in a directory that was just opened.
            found = {channel: _version(directory, file_name(channel, REQUEST)) for channel in channels}
        finally:
            os.close(directory)
        return {channel: version for channel, version in found.items() if version}

    def open(self, mailbox: str, name: str) -> IO[bytes] | None:
        """Open a file of a mailbox for reading. Return None if there is no such regular file."""
        try:
            directory = self._open(mailbox)
        except OSError as error:
            if error.errno in _REPLACED:
                return None
            raise
        try:
            return open_regular_file(directory, name)
        finally:
            os.close(directory)

    def begin(self, mailbox: str, name: str) -> MailboxDraft:
        """Begin to replace a file of a mailbox."""
        directory = self._open(mailbox)
        try:
            return MailboxDraft(directory, name)
        except BaseException:
            os.close(directory)
            raise

    def remove(self, mailbox: str, limit_s: float = REMOVE_STEP_S) -> bool:
        """Remove a mailbox and everything in it. Follows no link. Return False if it must be called again.

        A job may have filled its mailbox with very many files. Other mailboxes must not wait until they are removed.
        """
        from anygpu.agent.link.removal import remove_tree

        name = _checked(mailbox)
        try:
            root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            return True
        try:
            return remove_tree(root, name, limit_s)
        finally:
            os.close(root)

    def _open(self, mailbox: str) -> int:
        """Open the directory of a mailbox. The mailbox itself must not be a link."""
        path = os.path.join(self.root, _checked(mailbox))
        return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


def open_regular_file(directory: int, name: str) -> IO[bytes] | None:
    """Open a file of a directory (descriptor) for reading. Return None for links, pipes and missing files."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        descriptor = os.open(name, flags, dir_fd=directory)
    except OSError as error:
        if error.errno in _REPLACED:
            return None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        return None
    return open(descriptor, "rb")


class MessageDraft:
    """A message that is being written to a directory (descriptor). `publish` replaces the file of that name.

    The draft has a fixed name, so a crash leaves at most one. Readers see either the whole old file or the whole new
    one.
    """

    def __init__(self, directory: int, name: str) -> None:
        self._directory = directory
        self._name = name
        self._draft = draft_name(name)
        _unlink(directory, self._draft)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(self._draft, flags, 0o600, dir_fd=directory)
        os.fchmod(self._descriptor, stat.S_IMODE(os.fstat(directory).st_mode) & 0o660)

    def write(self, block: bytes) -> None:
        view = memoryview(block)
        while view:
            view = view[os.write(self._descriptor, view) :]

    def publish(self) -> None:
        self._close()  # a network file system stores the content now, before the file gets its name
        os.rename(self._draft, self._name, src_dir_fd=self._directory, dst_dir_fd=self._directory)

    def discard(self) -> None:
        """Remove the draft, if it was not published."""
        if self._descriptor >= 0:
            self._close()
            _unlink(self._directory, self._draft)

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        os.close(descriptor)


class MailboxDraft(MessageDraft):
    """A draft that owns the descriptor of its directory. `discard` must be called at the end in any case."""

    def discard(self) -> None:
        try:
            super().discard()
        finally:
            os.close(self._directory)


def replace_file(directory: int, name: str, blocks: Iterable[bytes]) -> None:
    """Replace a file of a directory (descriptor)."""
    draft = MessageDraft(directory, name)
    try:
        for block in blocks:
            draft.write(block)
        draft.publish()
    finally:
        draft.discard()


def remove_file(directory: int, name: str) -> None:
    _unlink(directory, name)


def read_blocks(file: IO[bytes], size: int) -> Iterator[bytes]:
    """Yield `size` bytes of a file. Raise BadMessage if the file ends earlier."""
    while size:
        block = file.read(min(size, BLOCK_BYTES))
        if not block:
            raise BadMessage("the message became shorter while it was read")
        size -= len(block)
        yield block


def _unlink(directory: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=directory)
    except FileNotFoundError:
        return


def _version(directory: int, name: str) -> str:
    try:
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    except OSError:
        return ""
    if not stat.S_ISREG(status.st_mode):
        return ""
    return f"{status.st_ino}-{status.st_mtime_ns}-{status.st_size}"


def _checked(mailbox: str) -> str:
    if not mailbox or "/" in mailbox or mailbox.startswith(".") or "\0" in mailbox:
        raise ValueError(f"{mailbox!r} is not the name of a mailbox")
    return mailbox
