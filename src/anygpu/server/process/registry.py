"""Record the addresses of this server process in the database, and know those of the other servers."""

import ipaddress
from collections.abc import Callable
from urllib.parse import urlsplit

from anygpu.server.process import log
from anygpu.server.process.clock import SystemClock
from anygpu.store.sql.engine.schema import SchemaTooNew
from anygpu.store.sql.servers import ServerRecord, ServerTable

MAX_RENEW_INTERVAL_S = 5.0  # agents learn of a new server after at most this time


class ServerRegistry:
    """Keeps the row of this process in the table of servers, and the newest list of all live servers.

    The row expires after `ttl_s` seconds without a renewal, so that agents do not try the address of a dead server.
    `shared_url` leads to any of the servers; it still works when all of them have been replaced.
    `on_too_new` is called if a newer server has changed the tables so that this process must not use them.
    """

    def __init__(
        self,
        table: ServerTable,
        record: ServerRecord,
        clock: SystemClock,
        *,
        ttl_s: float,
        on_too_new: Callable[[], None],
        shared_url: str = "",
    ) -> None:
        self._table = table
        self._record = record
        self._clock = clock
        self._ttl_s = ttl_s
        self._on_too_new = on_too_new
        self._shared_urls = [shared_url] if shared_url else []
        self._live: list[ServerRecord] = [record]

    def agent_urls(self) -> list[str]:
        """Return the URLs of the agent listeners of all live servers and the shared one, each once.

        A loopback address of another machine is left out: it would lead to a program on the agent's own machine.
        """
        own = self._record.host
        usable = [each for each in self._live if each.host == own or not _is_loopback(each.agent_url)]
        return list(dict.fromkeys([*(each.agent_url for each in usable), *self._shared_urls]))

    async def run(self) -> None:
        """Renew the row of this process again and again. When cancelled, remove it."""
        try:
            while True:
                await self.renew()
                await self._clock.sleep(min(self._ttl_s / 3, MAX_RENEW_INTERVAL_S))
        finally:
            await self._remove()

    async def renew(self) -> None:
        try:
            self._live = await self._table.renew(self._record, ttl_s=self._ttl_s)
        except SchemaTooNew as error:
            log.failure("this server stops, because its version is too old for the database", error)
            self._on_too_new()
        except Exception as error:  # noqa: BLE001  the database may fail in ways of its own
            log.failure("the address of this server was not recorded; it is tried again", error)

    async def _remove(self) -> None:
        try:
            await self._table.remove(self._record.id)
        except Exception as error:  # noqa: BLE001  the row expires by itself
            log.failure("the address of this server was not removed; it expires by itself", error)


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
