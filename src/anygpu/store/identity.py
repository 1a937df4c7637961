"""Check that the database and the blob store belong together.

Both have the same random id, which is created at the first start. Without this check, a new or empty database
would refer to no blob, and `anygpu gc` would remove them all.
"""

import re
import secrets

from sqlalchemy import Connection

from anygpu.errors import BlobMissing
from anygpu.store.blobs.contract import Blobs
from anygpu.store.blobs.keys import ROOT
from anygpu.store.blobs.trash import TRASH
from anygpu.store.sql.engine.database import Database
from anygpu.store.sql.engine.properties import get_property, set_property, set_property_once
from anygpu.store.sql.engine.statements import fetch_one

ID_KEY = "store-id"  # the blob that contains the id
_ID, _CONFIRMED = "blob_store_id", "blob_store_id_confirmed"
ADVICE = (
    "If the database was lost, restore it from a backup. If it is the right one, and files that only another"
    " database refers to may be removed, run `anygpu gc --adopt`"
)
OTHER_ID = f"The stored files belong to another database, so `anygpu gc` removes none of them. {ADVICE}"
NO_ID = f"The stored files do not say which database they belong to, so `anygpu gc` removes none. {ADVICE}"
NO_JOBS = (
    "The database has no jobs, but there are stored files, so `anygpu gc` removes none of them. If the database"
    " was lost, restore it from a backup. If not, run `anygpu gc --force`"
)


class StoreIdentity:
    """The id that a database and its blob store have in common."""

    def __init__(self, database: Database, blobs: Blobs) -> None:
        self._database, self._blobs = database, blobs

    async def check(self) -> str:
        """Return why the database and the blob store do not belong together, or "" if they do.

        If both are new, or were used before ids existed, they get an id.
        """
        ours, is_confirmed = await self._database.read(_read_id)
        theirs = await self._read_blob()
        if theirs is not None:
            return await self._compare(ours, theirs)
        if ours is not None and not is_confirmed:  # an earlier start was interrupted
            await self.adopt()
            return ""
        if not await self._has_blobs():
            await self.adopt()
            return ""
        if ours is None and await self._has_jobs():  # used before ids existed
            await self.adopt()
            return ""
        await self._confirm(
            ours or secrets.token_hex(16)
        )  # later jobs must not make it look like an old database
        return NO_ID

    async def check_jobs(self) -> str:
        """Return why blobs must not be removed although the ids are equal: there are blobs, but no jobs."""
        return NO_JOBS if await self._has_blobs() and not await self._has_jobs() else ""

    async def adopt(self) -> None:
        """Give the blob store the id of the database.

        The database has the id before the blob store, and is marked after it. So a start that was interrupted
        in between can be continued.
        """
        new = secrets.token_hex(16)
        value = await self._database.write(lambda connection: set_property_once(connection, _ID, new))
        await self._blobs.put(ID_KEY, value.encode())
        await self._confirm(value)

    async def _has_jobs(self) -> bool:
        sql = "SELECT 1 FROM projects WHERE head > 0 LIMIT 1"
        return await self._database.read(lambda connection: fetch_one(connection, sql)) is not None

    async def _compare(self, ours: str | None, theirs: str) -> str:
        if ours == theirs:
            await self._confirm(theirs)
            return ""
        if ours is None and re.fullmatch(r"[0-9a-f]{32}", theirs) and not await self._has_blobs():
            await self._confirm(theirs)  # nothing is lost: the database was new when the server was stopped
            return ""
        return OTHER_ID

    async def _confirm(self, value: str) -> None:
        def work(connection: Connection) -> None:
            set_property(connection, _ID, value)
            set_property(connection, _CONFIRMED, "yes")

        if await self._database.read(_read_id) != (value, True):
            await self._database.write(work)

    async def _read_blob(self) -> str | None:
        try:
            return (await self._blobs.get(ID_KEY)).decode("ascii", "replace").strip()
        except BlobMissing:
            return None

    async def _has_blobs(self) -> bool:
        for folder in (ROOT, TRASH):
            async for _ in self._blobs.list(folder):
                return True
        return False


def _read_id(connection: Connection) -> tuple[str | None, bool]:
    return get_property(connection, _ID), get_property(connection, _CONFIRMED) is not None
