"""Reads what a job's code says of its work: from the archive it was submitted with, beside everything else."""

import asyncio
from collections import OrderedDict

from anygpu.plan.analyse import Analysis
from anygpu.plan.packed import MOST_ARCHIVE_BYTES, texts
from anygpu.plan.workload import read_work
from anygpu.spec.model import JobSpec
from anygpu.store.blobs import Blobs
from anygpu.store.uploads import Uploads

REMEMBERED = 256  # readings; a sweep of many jobs is one code with other arguments


class WorkReader:
    """What was read is remembered: a job is planned again whenever it needs another place."""

    def __init__(self, blobs: Blobs, uploads: Uploads) -> None:
        self._blobs, self._uploads = blobs, uploads
        self._known: OrderedDict[object, Analysis | None] = OrderedDict()

    async def __call__(self, spec: JobSpec, organisation: str) -> Analysis | None:
        key = (
            organisation,
            spec.model_dump_json(
                include={"script", "args", "command", "code", "trainer", "config", "workdir"}
            ),
        )
        if key in self._known:
            self._known.move_to_end(key)
            return self._known[key]
        archive = await self._archive(spec, organisation)
        read = await asyncio.to_thread(_read, spec, archive)
        self._known[key] = read
        if len(self._known) > REMEMBERED:
            self._known.popitem(last=False)
        return read

    async def _archive(self, spec: JobSpec, organisation: str) -> bytes:
        """Empty where there is none, or one so large that reading it would be noticed."""
        sha256 = spec.workdir.archive if spec.workdir else None
        if sha256 is None or spec.trainer is not None:
            return b""
        key = self._uploads.key(organisation, sha256)
        info = await self._blobs.head(key)
        return b"" if info is None or info.size > MOST_ARCHIVE_BYTES else await self._blobs.get(key)


def _read(spec: JobSpec, archive: bytes) -> Analysis | None:
    files = texts(archive, spec.workdir.subdir if spec.workdir else "") if archive else {}
    return read_work(spec, files)
