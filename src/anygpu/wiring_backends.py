"""Settings and profiles -> backends: the part of the wiring that knows them."""

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from anygpu.backends import options as reading
from anygpu.backends import registry
from anygpu.backends.configured import Backends, Table
from anygpu.backends.contract import Backend
from anygpu.backends.local import LocalBackend
from anygpu.backends.registry import Around
from anygpu.control.clock import Wake
from anygpu.errors import AnygpuError
from anygpu.server.jobs.resolve import uuid_prefix
from anygpu.server.process import log
from anygpu.settings import InvalidSettings, Settings
from anygpu.store.vault.profiles import Profiles

GPU_LOCKS = Path("/tmp/anygpu-gpus")  # noqa: S108 - shared by everybody on the host on purpose
AFTER_START_S = 0.5  # being ready comes first
FOLLOW_EVERY_S = 10.0  # profiles that other servers changed
NUDGE = ""  # wakes the control loop without naming a job
_OURS = ("kind", "organisation")


async def open_backends(
    settings: Settings,
    profiles: Profiles,
    *,
    secret: bytes,
    agent_url: str,
    organisation: str,
    wake: Wake,
    stack: AsyncExitStack,
) -> Backends:
    """Returns with every backend known; those that need opening are opened beside."""
    around = Around(
        secret=secret,
        agent_target=_agent_target(agent_url),
        pins=settings.state / "pins",
        on_change=lambda name: _wake(wake, name),
        attended=not settings.embedded,
    )
    backends = Backends(
        _built_in(settings, wake, stack),
        [_table(name, table, organisation) for name, table in settings.backends.items()],
        profiles,
        around,
        on_open=lambda: wake.set(NUDGE),
        report=log.failure,
    )
    stack.push_async_callback(backends.close)
    await backends.refresh()
    return backends


def _built_in(settings: Settings, wake: Wake, stack: AsyncExitStack) -> dict[str, Backend]:
    if not settings.local.enabled:
        return {}
    local = LocalBackend(
        Path(settings.local.attempts) if settings.local.attempts else settings.state / "attempts",
        gpu_locks=Path(settings.local.gpu_locks) if settings.local.gpu_locks else GPU_LOCKS,
        cpus=settings.local.cpus or None,
        alone=settings.embedded,
        on_exit=lambda name: _wake(wake, name),
    )
    stack.callback(local.close)
    if settings.server.control:
        asyncio.get_running_loop().call_later(AFTER_START_S, local.start_ahead)
    return {local.name: local}


def _table(name: str, table: Mapping[str, Any], organisation: str) -> Table:
    """A backend of the settings file. Its credentials may stand among its options: the file is the operator's own."""
    place = f"backends.{name}"
    try:
        if name == "local":
            raise InvalidSettings("`local` is built in", hint="`[local]` configures it; choose another name.")
        kind = registry.find(table["kind"], place=f"{place}.kind", source="settings")
        secret = reading.secrets_of(kind.options)
        options = {key: value for key, value in table.items() if key not in (*_OURS, *secret)}
        credentials = {key: value for key, value in table.items() if key in secret}
        given = reading.read(kind.options, options, credentials, source="settings", place=place)
    except AnygpuError as error:
        raise InvalidSettings(str(error)) from error
    whose = str(table.get("organisation", organisation))
    return Table(name=name, organisation=whose, kind=kind.name, given=given)


def _agent_target(agent_url: str) -> tuple[str, int]:
    """Where tunnels end: the agent listener itself, as this machine reaches it."""
    parts = urlsplit(agent_url)
    host = parts.hostname or "127.0.0.1"
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), parts.port or 80  # noqa: S104 - not to listen


def _wake(wake: Wake, attempt_name: str) -> None:
    """anygpu-<32 hex digits>-<number> -> the job's id; a name that is not ours wakes nobody."""
    parts = attempt_name.split("-")
    if len(parts) == 3 and len(parts[1]) == 32:
        wake.set(uuid_prefix(parts[1]))
