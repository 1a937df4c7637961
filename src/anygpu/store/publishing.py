"""The values that publishing a checkpoint or an artifact passes around."""

from dataclasses import dataclass, field

from anygpu.events.facts import CheckpointRef
from anygpu.store.blobs import UPLOAD_HEADERS


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    """A chunk the server lacks, and where to send it."""

    sha256: str
    url: str
    method: str = "PUT"
    headers: dict[str, str] = field(default_factory=UPLOAD_HEADERS.copy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The id to commit with, and only the chunks the server lacks."""

    id: str
    uploads: tuple[Upload, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verified:
    """A checkpoint that is whole in the store; it exists once its event does."""

    id: str
    attempt: int
    step: int
    manifest: str  # blob key
    size: int

    def ref(self, saved_at_ms: int) -> CheckpointRef:
        return CheckpointRef(
            id=self.id,
            attempt=self.attempt,
            step=self.step,
            manifest=self.manifest,
            size=self.size,
            saved_at_ms=saved_at_ms,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkPlan:
    url: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlan:
    path: str
    size: int
    sha256: str
    chunks: tuple[ChunkPlan, ...]  # in order, to be joined


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadPlan:
    """Everything needed to fetch a checkpoint or an artifact; `asdict` of it is what the agent is sent."""

    step: int
    world_size: int
    files: tuple[FilePlan, ...]
