"""Build the backends from the settings file and the stored profiles."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from anygpu.backends import registry
from anygpu.backends.local import LocalBackend
from anygpu.backends.manager import BackendEntry, BackendManager, SettingsBackend, built_in_entry
from anygpu.backends.options import credential_fields, parse_options
from anygpu.backends.registry import BackendContext
from anygpu.backends.relay.contract import NO_RELAYS, Relays, RelayTransport
from anygpu.control.clock import WakeSignal
from anygpu.errors import AnygpuError
from anygpu.server.jobs.resolve import uuid_prefix
from anygpu.server.process import log
from anygpu.settings import InvalidSettings, Settings
from anygpu.store.vault.profiles import Profiles

GPU_LOCKS = Path("/tmp/anygpu-gpus")  # noqa: S108 - shared by everybody on the host on purpose
PREWARM_DELAY_S = 0.5  # prewarming must not delay the start of the server
REFRESH_EVERY_S = 10.0  # finds profiles that other servers changed
NO_JOB = ""  # wakes the control loop without naming a job
_NOT_OPTIONS = ("kind", "organisation")


async def open_backends(
    settings: Settings,
    profiles: Profiles,
    *,
    secret: bytes,
    agent_url: str,
    organisation: str,
    wake: WakeSignal,
    now_ms: Callable[[], int],
    stack: AsyncExitStack,
    relays: Relays = NO_RELAYS,
) -> BackendManager:
    """Build the backend manager. It opens the configured backends in background tasks."""
    context = BackendContext(
        secret=secret,
        agent_target=_agent_target(agent_url),
        pins=settings.state / "pins",
        on_change=lambda name: _wake_job(wake, name),
        attended=not settings.embedded,
        relays=relays,
    )
    backends = BackendManager(
        _built_in_backends(settings, organisation, wake, relays, stack),
        [_settings_backend(name, table, organisation) for name, table in settings.backends.items()],
        profiles,
        context,
        on_open=lambda: wake.set(NO_JOB),
        report=log.failure,
        now_ms=now_ms,
    )
    stack.push_async_callback(backends.close)
    await backends.refresh()
    return backends


def _built_in_backends(
    settings: Settings, organisation: str, wake: WakeSignal, relays: Relays, stack: AsyncExitStack
) -> list[BackendEntry]:
    if not settings.local.enabled:
        return []
    local = LocalBackend(
        Path(settings.local.attempts) if settings.local.attempts else settings.state / "attempts",
        gpu_locks=Path(settings.local.gpu_locks) if settings.local.gpu_locks else GPU_LOCKS,
        cpus=settings.local.cpus or None,
        single_server=settings.embedded,
        on_exit=lambda name: _wake_job(wake, name),
        relay=_local_relay(settings, relays),
    )
    stack.callback(local.close)
    if settings.server.control:
        asyncio.get_running_loop().call_later(PREWARM_DELAY_S, local.prewarm)
    return [built_in_entry(local, organisation, settings.local.organisations)]


def _local_relay(settings: Settings, relays: Relays) -> RelayTransport | None:
    try:
        return relays.choose(settings.local.relay)
    except AnygpuError as error:
        raise InvalidSettings(
            f"The setting local.relay = {settings.local.relay!r} cannot be used. {error.message}",
            hint=error.hint,
        ) from error


def _settings_backend(name: str, table: Mapping[str, Any], organisation: str) -> SettingsBackend:
    """Parse the table of a backend in the settings file.

    Its credentials are in the same table as its options.
    """
    place = f"backends.{name}"
    try:
        if name == "local":
            raise InvalidSettings(
                "backends.local: the name `local` belongs to the built-in backend, so no other backend can have "
                "it",
                hint="Choose another name. To configure the built-in backend, use the section `[local]`.",
            )
        kind = registry.find_kind(table["kind"], place=f"{place}.kind", source="settings")
        secret = credential_fields(kind.options)
        options = {key: value for key, value in table.items() if key not in (*_NOT_OPTIONS, *secret)}
        credentials = {key: value for key, value in table.items() if key in secret}
        parsed = parse_options(kind.options, options, credentials, source="settings", place=place)
    except AnygpuError as error:
        raise InvalidSettings(str(error)) from error
    owner = str(table.get("organisation", organisation))
    return SettingsBackend(name=name, organisation=owner, kind=kind.name, parsed=parsed)


def _agent_target(agent_url: str) -> tuple[str, int]:
    """Return the host and port at which the server listens for agents, as seen from this machine.

    The SSH tunnels from other machines lead to this address.
    """
    parts = urlsplit(agent_url)
    host = parts.hostname or "127.0.0.1"
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host), parts.port or 80  # noqa: S104 - not to listen


def _wake_job(wake: WakeSignal, attempt_name: str) -> None:
    """Wake the control loop, so that it checks the job of an attempt at once.

    The job's id is in the attempt's name: anygpu-<32 hex digits>-<number>. Other names are ignored.
    """
    parts = attempt_name.split("-")
    if len(parts) == 3 and len(parts[1]) == 32:
        wake.set(uuid_prefix(parts[1]))
