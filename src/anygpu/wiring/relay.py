"""Build the relays from the settings, and the task that answers the messages of agents."""

from collections.abc import Callable, Sequence
from pathlib import Path

from anygpu.backends.manager import BackendManager
from anygpu.backends.relay.contract import Relays
from anygpu.backends.relay.directory import DirectoryRelay
from anygpu.backends.relay.storage import StorageRelay
from anygpu.control.clock import Clock
from anygpu.control.term import PeriodicTask
from anygpu.server.agent_app import build_agent_app
from anygpu.server.process import log
from anygpu.server.relay.app_call import AppCaller
from anygpu.server.relay.task import RelayTask
from anygpu.server.services import Services
from anygpu.settings import Settings
from anygpu.store.blobs.contract import Blobs


def build_relays(settings: Settings, blobs: Blobs) -> Relays:
    relay = settings.relay
    directory = (
        DirectoryRelay(
            Path(relay.directory).absolute(), agent_path=relay.agent_directory, poll_s=relay.poll_s
        )
        if relay.directory
        else None
    )
    if settings.blobs_url.startswith("file:"):
        return Relays(directory=directory, poll_s=relay.poll_s)
    storage = StorageRelay(blobs, poll_s=relay.poll_s, url_life_s=relay.url_life_s)
    return Relays(directory=directory, storage=storage, poll_s=relay.poll_s)


def relay_tasks(
    services: Services, backends: BackendManager, relays: Relays, clock: Clock
) -> Callable[[], Sequence[PeriodicTask]]:
    """Return a function that returns a new relay task. The task calls the agent API in this process."""
    caller = AppCaller(build_agent_app(services))
    shared = [relay for relay in (relays.directory, relays.storage) if relay is not None]
    return lambda: [RelayTask(backends, services.journal, caller, clock, log.failure, shared)]
