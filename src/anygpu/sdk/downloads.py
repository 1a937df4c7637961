"""Download a job's files. Downloads are resumed by chunk, verified, and never leave the target directory."""

import hashlib
import http.client
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import urljoin, urlsplit

from anygpu.errors import BlobCorrupt, BlobMissing, Conflict, ServerUnreachable, UnsafePath, describe_error
from anygpu.sdk.client import Client
from anygpu.sdk.http import TRIES, backoff_s

BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file on the server. Its content is the content of its URLs, in order."""

    name: str
    size: int
    sha256: str
    urls: Sequence[str]


@dataclass(frozen=True, slots=True)
class DownloadedFile:
    path: Path
    size: int
    downloaded: bool  # False if a file with the same content already existed


def artifact_files(client: Client, job_id: str, names: Sequence[str] = ()) -> list[RemoteFile]:
    """Return the newest output file of each name in `names` (default: all names)."""
    newest = {each["name"]: each for each in client.artifacts(job_id)}
    return [_remote_file(each, each["name"]) for name, each in newest.items() if not names or name in names]


def checkpoint_files(client: Client, job_id: str, step: int | None = None) -> list[RemoteFile]:
    """Return the files of the checkpoint at `step` (default: the newest), named `checkpoints/<step>/…`."""
    saved = client.checkpoints(job_id)
    chosen = [each for each in saved if step is None or each["step"] == step]
    if not chosen:
        missing = "no checkpoint" if step is None else f"no checkpoint at step {step}"
        steps = ", ".join(str(each["step"]) for each in saved) or "none"
        raise BlobMissing(f"The job has {missing}.", hint=f"Its checkpoints are of these steps: {steps}.")
    newest = max(chosen, key=lambda each: (each["saved_at"], each["step"]))
    return [_remote_file(file, f"checkpoints/{newest['step']}/{file['path']}") for file in newest["files"]]


def _remote_file(entry: dict[str, Any], name: str) -> RemoteFile:
    return RemoteFile(name, int(entry["size"]), entry["sha256"], tuple(entry["urls"]))


def safe_path(root: Path, name: str) -> Path:
    """Return the local path for the remote file `name`. Raise UnsafePath if the path is outside `root`."""
    windows = PureWindowsPath(name)
    parts = PurePosixPath(name).parts
    odd = "\0" in name or windows.drive or windows.root or ".." in windows.parts or not parts
    if odd or name.startswith("/"):
        raise UnsafePath(
            f"The job has a file with the name {name!r}, which leads outside {root}, so it was not written. "
            "Use another name in the job's script."
        )
    path = root.joinpath(*parts)
    if not path.parent.resolve().is_relative_to(root.resolve()):
        raise UnsafePath(
            f"The file {name!r} would be written outside {root}, through a symbolic link.",
            hint="Remove the link, or choose another directory.",
        )
    return path


@dataclass(frozen=True, slots=True)
class Downloader:
    """A downloader into one directory. `base_url` is prepended to URLs that have no host.

    `on_bytes` is called with the size of each block that was downloaded.
    """

    root: Path
    base_url: str
    force: bool = False
    on_bytes: Callable[[int], None] = lambda size: None

    def fetch(self, file: RemoteFile) -> DownloadedFile:
        path = safe_path(self.root, file.name)
        if path.is_file() and not path.is_symlink() and file_sha256(path) == file.sha256:
            return DownloadedFile(path, file.size, downloaded=False)
        if (path.exists() or path.is_symlink()) and not self.force:
            raise Conflict(
                f"{path} already exists with other content.",
                hint="Overwrite it with --force, or choose another directory.",
            )
        path.parent.mkdir(parents=True, exist_ok=True)
        self._download_verified(file, path)
        return DownloadedFile(path, file.size, downloaded=True)

    def _download_verified(self, file: RemoteFile, path: Path) -> None:
        part = _PartialFile(path, file)
        self._download_with_retries(file, part)
        if file_sha256(part.data) != file.sha256:
            # The partial file may have been damaged on this disk: download once more from the start.
            part.discard()
            self._download_with_retries(file, part)
        if file_sha256(part.data) != file.sha256:
            part.discard()
            raise BlobCorrupt(
                f"The downloaded file {file.name} is damaged: it does not match its checksum.",
                hint="Download it again, or download an earlier checkpoint with --step.",
            )
        part.data.replace(path)
        part.discard()

    def _download_with_retries(self, file: RemoteFile, part: "_PartialFile") -> None:
        for turn in range(TRIES):
            try:
                self._download_missing(file, part)
                return
            except ServerUnreachable:
                if turn == TRIES - 1:
                    raise
                time.sleep(backoff_s(turn))

    def _download_missing(self, file: RemoteFile, part: "_PartialFile") -> None:
        done = part.chunks_done()
        for number, url in enumerate(file.urls):
            if number >= done:
                part.append(number, self._blocks(urljoin(self.base_url + "/", url)))
        if not file.urls:
            part.append(0, b"")

    def _blocks(self, url: str) -> Iterator[bytes]:
        for block in _read_url(url):
            self.on_bytes(len(block))
            yield block


class _PartialFile:
    """A partial download, and a second file that records how many chunks are complete."""

    def __init__(self, path: Path, file: RemoteFile) -> None:
        self.data = path.with_name(f".{path.name}.{file.sha256[:12]}.part")
        self._state_file = self.data.with_suffix(".part.json")

    def chunks_done(self) -> int:
        try:
            notes = json.loads(self._state_file.read_text())
            os.truncate(self.data, notes["size"])
        except (OSError, ValueError, KeyError):
            self.discard()
            return 0
        return int(notes["chunks"])

    def append(self, number: int, content: "bytes | Iterator[bytes]") -> None:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
        with os.fdopen(os.open(self.data, flags, 0o666), "ab") as file:
            for block in [content] if isinstance(content, bytes) else content:
                file.write(block)
            size = file.tell()
        self._state_file.write_text(json.dumps({"chunks": number + 1, "size": size}))

    def discard(self) -> None:
        self.data.unlink(missing_ok=True)
        self._state_file.unlink(missing_ok=True)


def file_sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_url(url: str) -> Iterator[bytes]:
    """Yield the content of a signed URL. The API token is not sent: the URL itself grants access."""
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.hostname or "", parts.port, timeout=60)
    try:
        connection.request("GET", f"{parts.path}?{parts.query}" if parts.query else parts.path)
        response = connection.getresponse()
        if response.status != 200:
            raise BlobMissing(
                f"{parts.hostname} answered with HTTP status {response.status} for a file of the job: its link "
                "may have expired. Repeat the command."
            )
        while block := response.read(BLOCK):
            yield block
        if response.length:
            raise ServerUnreachable(
                f"{parts.hostname} closed the connection before the file was complete.",
                hint="Repeat the command to continue the download.",
            )
    except (OSError, http.client.HTTPException) as error:
        raise ServerUnreachable(
            f"The download of a file was interrupted ({describe_error(error)}).",
            hint="Repeat the command to continue the download.",
        ) from error
    finally:
        connection.close()
