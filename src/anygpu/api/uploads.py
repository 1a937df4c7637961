"""Uploaded files and archives of working directories."""

from typing import Annotated

from pydantic import Field, StringConstraints

from anygpu.api.base import ApiModel, RequestModel
from anygpu.api.reports import HASH

MAX_HASHES = 10_000


class StoredArchive(ApiModel):
    """An uploaded archive. `size` is null if it was stored before."""

    sha256: str = Field(examples=[HASH])
    size: int | None = Field(examples=[2048])


class UploadLimits(ApiModel):
    """Limits of a snapshot of a working directory."""

    snapshot_bytes: int = Field(examples=[1073741824])
    snapshot_files: int = Field(examples=[100000])


class UploadHashes(RequestModel):
    """SHA-256 hashes of contents."""

    sha256: list[Annotated[str, StringConstraints(pattern="^[0-9a-f]{64}$")]] = Field(
        max_length=MAX_HASHES, examples=[[HASH]]
    )


class MissingUploads(ApiModel):
    """Those of the requested contents that are not stored."""

    missing: list[str] = Field(examples=[[HASH]])


class StoredBatch(ApiModel):
    """The number of contents that were stored."""

    stored: int = Field(examples=[2])
