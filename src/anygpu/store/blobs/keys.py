"""Keys of blobs: where each kind of blob is stored, and which names are safe.

Organisations share no blobs. Each attempt has its own folder for chunks, so an old attempt that still has
upload URLs cannot overwrite the chunks of a newer attempt.
"""

import re
import unicodedata
from dataclasses import dataclass
from functools import lru_cache

from anygpu.errors import UnsafePath

ROOT = "org"
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,126}[A-Za-z0-9_]|[A-Za-z0-9_]"
_SHA256 = r"[0-9a-f]{64}"
_MANIFEST = re.compile(
    rf"{ROOT}/(?P<organisation>{_NAME})/jobs/(?P<job>{_NAME})/attempts/(?P<attempt>\d+)"
    rf"/manifests/(?P<id>{_SHA256})\.json"
)
_CHUNK = re.compile(
    rf"{ROOT}/(?:{_NAME})/jobs/(?:{_NAME})/attempts/\d+/(?:chunks|incoming)/(?P<sha256>{_SHA256})"
)
_PLAN = re.compile(rf"{ROOT}/(?:{_NAME})/plans/{_SHA256}\.json")
_UPLOAD = re.compile(rf"{ROOT}/(?:{_NAME})/uploads/{_SHA256}")


@dataclass(frozen=True, slots=True, kw_only=True)
class UploadOwner:
    """The attempt that owns an upload.

    The files of the upload are stored in the folder of the attempt.
    """

    organisation: str
    job_id: str
    attempt: int

    @property
    def folder(self) -> str:
        job = require_safe_name(self.job_id)
        return f"{organisation_folder(self.organisation)}/jobs/{job}/attempts/{self.attempt}"

    def chunk_key(self, sha256: str) -> str:
        return f"{self.folder}/chunks/{sha256}"

    def incoming_key(self, sha256: str) -> str:
        """Return the key to which the agent uploads a chunk. The server moves the chunk to `chunk_key`.

        The agent gets a link to this key only, so it cannot change a chunk that is published.
        """
        return f"{self.folder}/incoming/{sha256}"

    def manifest_key(self, manifest_id: str) -> str:
        return f"{self.folder}/manifests/{manifest_id}.json"


def organisation_folder(organisation: str) -> str:
    return f"{ROOT}/{require_safe_name(organisation)}"


def upload_key(organisation: str, sha256: str) -> str:
    return f"{organisation_folder(organisation)}/uploads/{sha256}"


def plan_key(organisation: str, sha256: str) -> str:
    return f"{organisation_folder(organisation)}/plans/{sha256}.json"


def folders_of_job(organisation: str, job_id: str) -> tuple[str, ...]:
    """Return the folders that contain everything a job may refer to."""
    folder = organisation_folder(organisation)
    job_folder = f"{folder}/jobs/{require_safe_name(job_id)}"
    return job_folder, uploads_folder(organisation), f"{folder}/plans"


def uploads_folder(organisation: str) -> str:
    return f"{organisation_folder(organisation)}/uploads"


def parse_manifest_key(key: str) -> tuple[UploadOwner, str] | None:
    """Parse the key of a manifest (list of files): return the attempt that owns it, and its id.

    Return None if `key` is not the key of a manifest.
    """
    match = _MANIFEST.fullmatch(key)
    if not match:
        return None
    attempt = int(match["attempt"])
    return UploadOwner(organisation=match["organisation"], job_id=match["job"], attempt=attempt), match["id"]


def chunk_sha256(key: str) -> str | None:
    """Return the hash in the key of a chunk, published or not. None if `key` is not the key of a chunk."""
    match = _CHUNK.fullmatch(key)
    return match["sha256"] if match else None


def is_plan_key(key: str) -> bool:
    return _PLAN.fullmatch(key) is not None


def is_upload_key(key: str) -> bool:
    return _UPLOAD.fullmatch(key) is not None


def require_safe_name(name: str) -> str:
    """Return the name of an organisation or job.

    Raise UnsafePath if the name is not safe inside a blob key.
    """
    if not re.fullmatch(_NAME, name):
        raise UnsafePath(
            f"The name {name!r} cannot be used in the key of a stored file. Use 1 to 128 letters, digits, "
            "`_`, `-` and `.`; start and end with a letter, a digit or `_`."
        )
    return name


MAX_KEY_BYTES = 900  # S3 allows 1,024, including the prefix of the store
MAX_SEGMENT_BYTES = 240  # file systems allow 255
STAGING = ".staging"  # folder of unfinished puts in the local store

_HIDDEN_BY_LOCAL_STORE = re.compile(r"#\d+$")  # obstore marks unfinished files this way and hides them

_SIGNABLE = re.compile(r"[A-Za-z0-9_.~/-]+")


def require_safe_key(key: str) -> str:
    """Return the key. Raise UnsafePath if some blob store would change or reject the key."""
    reason = _key_fault(key)
    if reason:
        raise UnsafePath(f"{key!r} is not a valid key of a stored file: {reason}. Use another key.", key=key)
    return key


def require_signable_key(key: str) -> str:
    """Return the key. Raise UnsafePath if the key would need escaping in a URL.

    Some providers compute wrong signatures for escaped keys.
    """
    if not _SIGNABLE.fullmatch(require_safe_key(key)):
        raise UnsafePath(
            f"No download URL can be made for the key {key!r}. Use only letters, digits, `_`, `-`, `.`, `~` "
            "and `/` in keys.",
            key=key,
        )
    return key


def require_safe_prefix(prefix: str) -> str:
    """Return the prefix of a listing without its trailing slash. Raise UnsafePath if it is not a valid key.

    An empty prefix means all blobs.
    """
    folder = prefix.removesuffix("/")
    return require_safe_key(folder) if folder else ""


@lru_cache(maxsize=4096)
def _key_fault(key: str) -> str:
    if not key or len(key.encode(errors="surrogatepass")) > MAX_KEY_BYTES:
        return f"it must have 1 to {MAX_KEY_BYTES} bytes"
    if not key.isprintable() and any(unicodedata.category(character) in ("Cc", "Cs") for character in key):
        return "it contains control characters"
    if "\\" in key:
        return "it contains a backslash"
    if key.split("/", 1)[0] == STAGING:
        return f"the folder {STAGING} is reserved for unfinished files"
    return next((fault for segment in key.split("/") if (fault := _segment_fault(segment))), "")


def _segment_fault(segment: str) -> str:
    if not segment:
        return "it starts or ends with `/`, or contains `//`"
    if segment.endswith("."):  # covers `.` and `..`; Azure removes a trailing dot
        return "a name between slashes ends with a dot"
    if len(segment.encode()) > MAX_SEGMENT_BYTES:
        return f"a name between slashes is longer than {MAX_SEGMENT_BYTES} bytes"
    if _HIDDEN_BY_LOCAL_STORE.search(segment):
        return "a name between slashes ends with # and a number"
    return ""
