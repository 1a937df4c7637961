"""Kombu's Redis transport, for queues into which others write too."""

import logging
from queue import Empty
from typing import Any

from kombu.transport import TRANSPORT_ALIASES, redis

LOG = logging.getLogger("anygpu.worker")


class ValidatingChannel(redis.Channel):  # type: ignore[misc]
    """Drops entries of a queue that are not Celery messages. Kombu's error for them would end the worker."""

    def _brpop_read(self, **options: Any) -> Any:
        try:
            return super()._brpop_read(**options)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            LOG.warning("A message was dropped, because it is not a Celery message: %r", error)
            raise Empty from None


class CarefulTransport(redis.Transport):  # type: ignore[misc]
    Channel = ValidatingChannel


def use_validating_transport() -> None:
    """Use this transport for all brokers of this process. Log lines then still show the broker as redis://…"""
    name = f"{CarefulTransport.__module__}:{CarefulTransport.__name__}"
    TRANSPORT_ALIASES.update({"redis": name, "rediss": name})
