"""Open the database and the blob store, and build the stores that use them: journal, reports, secrets, …"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from anygpu.errors import NotFound
from anygpu.events.view import JobView
from anygpu.server.process.clock import SystemClock
from anygpu.server.process.periodic import Retention
from anygpu.settings import Settings
from anygpu.store.blobs.checkpoints import Checkpoints
from anygpu.store.blobs.contract import Blobs
from anygpu.store.blobs.factory import open_blobs
from anygpu.store.blobs.snapshots import SnapshotLimits, Snapshots
from anygpu.store.blobs.sweep import DAY_MS, SweepPolicy
from anygpu.store.blobs.uploads import Uploads
from anygpu.store.costs import Costs
from anygpu.store.identity import StoreIdentity
from anygpu.store.journal import OnCommit
from anygpu.store.outcomes import Outcomes
from anygpu.store.scope import SYSTEM
from anygpu.store.sql.deletion import purge_deleted_jobs
from anygpu.store.sql.engine.database import Database, open_database
from anygpu.store.sql.engine.statements import fetch_all
from anygpu.store.sql.journal import SqlJournal
from anygpu.store.sql.report_store.reports import SqlReports
from anygpu.store.sql.retention import prune
from anygpu.store.vault.identity import SIGNING, VAULT, open_keys
from anygpu.store.vault.profiles import Profiles
from anygpu.store.vault.rotation import RotationResult, rotate_keys
from anygpu.store.vault.secrets import Secrets
from anygpu.store.vault.vault import Vault


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """The database, the blob store, and the stores that use them."""

    database: Database
    journal: SqlJournal
    reports: SqlReports
    blobs: Blobs
    checkpoints: Checkpoints
    uploads: Uploads
    snapshots: Snapshots
    secrets: Secrets
    profiles: Profiles
    outcomes: Outcomes
    costs: Costs


async def open_stored_database(settings: Settings, stack: AsyncExitStack) -> Database:
    database = await open_database(settings.database_url)
    stack.push_async_callback(database.close)
    return database


async def open_server_keys(settings: Settings, database: Database, *, accept_new: bool) -> bytes:
    """Check both key files, and return the signing key. Raise KeyUnusable if a key is missing or has changed."""
    [signing_key] = await open_keys(database, SIGNING, _key_file(settings), accept_new=accept_new)
    await open_keys(database, VAULT, _vault_file(settings), accept_new=accept_new)
    return signing_key


def open_stores(settings: Settings, database: Database, secret: bytes, on_commit: OnCommit) -> Stores:
    blobs = open_blobs(
        settings.blobs_url, secret=secret, options=parse_blob_options(settings.store.blob_options)
    )
    uploads = Uploads(blobs, url_life_s=settings.store.signed_url_s)
    limits = SnapshotLimits(settings.limits.snapshot_bytes, settings.limits.snapshot_files)
    return Stores(
        database=database,
        journal=SqlJournal(database, on_commit=on_commit, alone=settings.embedded),
        reports=SqlReports(database, log_quota_bytes=settings.store.log_quota_bytes),
        blobs=blobs,
        checkpoints=Checkpoints(blobs, url_life_s=settings.store.signed_url_s),
        uploads=uploads,
        snapshots=Snapshots(blobs, uploads, limits),
        secrets=Secrets(database, _vault_file(settings)),
        profiles=Profiles(database, _vault_file(settings)),
        outcomes=Outcomes(database),
        costs=Costs(database),
    )


def build_retention(settings: Settings, stores: Stores, clock: SystemClock) -> Retention:
    database, journal = stores.database, stores.journal

    async def kept_jobs(since_ms: int) -> AsyncIterator[JobView]:
        sql = "SELECT id FROM jobs WHERE ended_at_ms IS NULL OR ended_at_ms >= ?"
        for (job_id,) in await database.read(lambda connection: fetch_all(connection, sql, (since_ms,))):
            try:
                view = await journal.view(SYSTEM, job_id)
            except NotFound:  # deleted meanwhile
                continue
            yield view

    async def prune_journal(before_ms: int, dry_run: bool) -> dict[str, int]:
        if not dry_run:
            await purge_deleted_jobs(database)
            await journal.refold_stale()
        return asdict(await prune(database, ended_before_ms=before_ms, dry_run=dry_run))

    return Retention(
        stores.blobs,
        stores.uploads,
        stores.snapshots,
        StoreIdentity(database, stores.blobs),
        kept_jobs,
        prune_journal,
        clock,
        keep_days=settings.store.retention_days,
        policy=SweepPolicy(
            trash_ms=round(settings.store.trash_days * DAY_MS),
            max_share=settings.store.gc_max_share,
            share_from=settings.store.gc_share_from,
        ),
    )


def key_rotation(settings: Settings, stores: Stores) -> Callable[[bool], Awaitable[RotationResult]]:
    vault = Vault(_vault_file(settings))
    return lambda new_key: rotate_keys(stores.database, vault, new_key=new_key)


def parse_blob_options(texts: Sequence[str]) -> dict[str, Any]:
    """Parse the setting `store.blob_options`, a list of `name=value` texts.

    `endpoint=http://…` is an option of the blob store, `client.allow_http=true` one of its HTTP client.
    """
    options: dict[str, Any] = {}
    for text in texts:
        name, _, value = text.partition("=")
        part, dot, key = name.strip().partition(".")
        if dot:
            options.setdefault(part, {})[key] = value.strip()
        else:
            options[part] = value.strip()
    return options


def _key_file(settings: Settings) -> Path:
    chosen = settings.server.signing_key
    return Path(chosen).expanduser() if chosen else settings.state / "signing.key"


def _vault_file(settings: Settings) -> Path:
    return _key_file(settings).with_name("secrets.key")
