"""Download the results of a job that ran in a copy into the directory that was copied.

Results come from another machine, so they never replace what the user changed meanwhile, nor files that are run or
read as configuration, such as scripts or `.git`.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from anygpu.sdk.client import Client
from anygpu.sdk.downloads import Downloader, RemoteFile, artifact_files, file_sha256, safe_path
from anygpu.sdk.upload.workdir import LOCAL
from anygpu.spec.ignore import DEFAULT_NAMES

CODE_SUFFIXES = (".py", ".ipynb", ".sh")


@dataclass(frozen=True, slots=True)
class HomeFile:
    """A result that was downloaded to the user's directory.

    `kept` is the local file of the same name that was not replaced, if there is one.
    """

    path: Path
    size: int
    downloaded: bool
    kept: Path | None = None


def ran_in_copy(job: Mapping[str, Any]) -> bool:
    """Return whether the newest attempt of a job ran in a copy of the user's working directory."""
    workdir = job["spec"].get("workdir") or {}
    attempts = job.get("attempts") or []
    if not attempts:
        return False
    is_elsewhere = attempts[-1]["backend"] != LOCAL or workdir.get("snapshot")
    return bool(workdir.get("archive") or (workdir.get("manifest") and is_elsewhere))


class HomeDirectory:
    """The user's directory from which a job was submitted, and to which its results are downloaded.

    `since_ns` is the time of the submission (Unix time). Local files that changed later are not replaced.
    """

    def __init__(self, root: Path, job_id: str, since_ns: int) -> None:
        self.root = root
        self._suffix = f".anygpu-{job_id[-8:]}"
        self._since_ns = since_ns

    def results(self, client: Client, job_id: str) -> tuple[list[RemoteFile], list[str]]:
        """Return the job's results to download, and the names of those that must be fetched explicitly."""
        files = artifact_files(client, job_id)
        blocked = [file.name for file in files if _is_configuration(file.name)]
        return [file for file in files if file.name not in blocked], blocked

    def fetch(self, file: RemoteFile, base_url: str, on_bytes: Callable[[int], None]) -> HomeFile:
        """Download a result. If its path is taken, the result gets another name."""
        path = safe_path(self.root, file.name)
        kept = path if self._must_keep(path, file.sha256) else None
        named = replace(file, name=f"{file.name}{self._suffix}") if kept else file
        done = Downloader(self.root, base_url, force=True, on_bytes=on_bytes).fetch(named)
        return HomeFile(done.path, done.size, done.downloaded, kept)

    def _must_keep(self, path: Path, sha256: str) -> bool:
        """Return whether the local file must not be replaced by a result with other content."""
        try:
            status = path.lstat()
        except FileNotFoundError:
            return False
        if path.is_symlink() or not path.is_file():
            return True
        if file_sha256(path) == sha256:
            return False
        is_code = path.suffix in CODE_SUFFIXES or os.access(path, os.X_OK)
        return is_code or max(status.st_mtime_ns, status.st_ctime_ns) >= self._since_ns


def _is_configuration(name: str) -> bool:
    """Return whether a result would be read by another program, such as `.bashrc` or `.git/hooks/…`."""
    parts = PurePosixPath(name).parts
    return not parts or parts[0].startswith(".") or any(part in DEFAULT_NAMES for part in parts)
