"""A segment: one file of the spool."""

from __future__ import annotations

import errno
import os

from anygpu.agent import frames

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIX = ".frames"


class Segment:
    """Frames in the order of their numbers, appended to one file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.size = os.fstat(self.fd).st_size
        self.frames: list[frames.Frame] = []
        self.hollow = False

    def append(self, frame: frames.Frame, data: bytes) -> None:
        """All of it or none of it: a full disk leaves the file as it was."""
        written = os.write(self.fd, data)
        if written != len(data):
            os.ftruncate(self.fd, self.size)
            raise OSError(errno.ENOSPC, "the disk is full")
        frame.segment, frame.offset, frame.data = self, self.size, None
        self.size += written
        self.frames.append(frame)

    def load(self) -> Iterator[frames.Frame]:
        """What an earlier agent left here; a frame torn by its death is cut off."""
        data = os.pread(self.fd, self.size, 0)
        end = 0
        for header, start, _, end in frames.decode(data):
            frame = frames.described(header, end - start)
            frame.segment, frame.offset = self, start
            self.frames.append(frame)
            yield frame
        os.ftruncate(self.fd, end)
        self.size = end

    def drop_output(self, reason: str) -> None:
        """Rewrite without the output, atomically; the frames and their numbers stay."""
        data = frames.hollowed(os.pread(self.fd, self.size, 0), reason)
        draft = self.path + ".tmp"
        descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        os.write(descriptor, data)
        os.replace(draft, self.path)
        os.close(self.fd)
        self.fd, self.size, self.hollow = descriptor, len(data), True
        for frame, (header, start, _, end) in zip(self.frames, frames.decode(data)):
            frame.offset, frame.size, frame.log_bytes = start, end - start, int(header.get("n", 0))

    def remove(self) -> None:
        os.close(self.fd)
        os.unlink(self.path)
