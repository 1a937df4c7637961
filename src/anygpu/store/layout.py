"""Where things lie in the blob store.

Nothing is shared between organisations, and chunks belong to one attempt: an old attempt that still holds upload
URLs cannot touch what a newer one publishes.
"""

import re
from dataclasses import dataclass

from anygpu.errors import UnsafePath

ROOT = "org"
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,126}[A-Za-z0-9_]|[A-Za-z0-9_]"
_SHA256 = r"[0-9a-f]{64}"
_MANIFEST = re.compile(
    rf"{ROOT}/(?P<organisation>{_NAME})/jobs/(?P<job>{_NAME})/attempts/(?P<attempt>\d+)"
    rf"/manifests/(?P<id>{_SHA256})\.json"
)
_CHUNK = re.compile(rf"{ROOT}/(?:{_NAME})/jobs/(?:{_NAME})/attempts/\d+/chunks/{_SHA256}")
_PLAN = re.compile(rf"{ROOT}/(?:{_NAME})/plans/{_SHA256}\.json")
_UPLOAD = re.compile(rf"{ROOT}/(?:{_NAME})/uploads/{_SHA256}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """The attempt that uploads."""

    organisation: str
    job_id: str
    attempt: int

    @property
    def folder(self) -> str:
        job = checked_name(self.job_id)
        return f"{organisation_folder(self.organisation)}/jobs/{job}/attempts/{self.attempt}"

    def chunk(self, sha256: str) -> str:
        return f"{self.folder}/chunks/{sha256}"

    def manifest(self, manifest_id: str) -> str:
        return f"{self.folder}/manifests/{manifest_id}.json"


def organisation_folder(organisation: str) -> str:
    return f"{ROOT}/{checked_name(organisation)}"


def upload_key(organisation: str, sha256: str) -> str:
    return f"{organisation_folder(organisation)}/uploads/{sha256}"


def plan_key(organisation: str, sha256: str) -> str:
    return f"{organisation_folder(organisation)}/plans/{sha256}.json"


def read_manifest_key(key: str) -> tuple[Owner, str] | None:
    """Whose manifest it is and its id; None when the key is not a manifest's."""
    found = _MANIFEST.fullmatch(key)
    if not found:
        return None
    attempt = int(found["attempt"])
    return Owner(organisation=found["organisation"], job_id=found["job"], attempt=attempt), found["id"]


def is_chunk(key: str) -> bool:
    return _CHUNK.fullmatch(key) is not None


def is_plan(key: str) -> bool:
    return _PLAN.fullmatch(key) is not None


def is_upload(key: str) -> bool:
    return _UPLOAD.fullmatch(key) is not None


def checked_name(name: str) -> str:
    """An organisation or a job as one part of a key."""
    if not re.fullmatch(_NAME, name):
        raise UnsafePath(f"{name!r} cannot be part of a blob's key: letters, digits, `_`, `-` and `.` can.")
    return name
