"""API models for uploads: the files of working directories."""

from typing import Annotated

from pydantic import Field, StringConstraints

from anygpu.api.base import ApiModel, RequestModel
from anygpu.api.reports import HASH

MAX_HASHES = 10_000


class StoredArchive(ApiModel):
    """The answer to an uploaded archive. `size` is null if the archive was stored before."""

    sha256: str = Field(examples=[HASH])
    size: int | None = Field(examples=[2048])


class UploadLimits(ApiModel):
    """The largest size and number of files of a snapshot (the uploaded copy of a working directory)."""

    snapshot_bytes: int = Field(examples=[1073741824])
    snapshot_files: int = Field(examples=[100000])


class UploadHashes(RequestModel):
    """The SHA-256 hashes of file contents that a client wants to upload."""

    sha256: list[Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]] = Field(
        max_length=MAX_HASHES, examples=[[HASH]]
    )


class MissingUploads(ApiModel):
    """The hashes of the contents that the server does not have yet, so that the client must upload them."""

    missing: list[str] = Field(examples=[[HASH]])


class StoredBatch(ApiModel):
    """The answer to an upload of several file contents: how many were stored."""

    stored: int = Field(examples=[2])
