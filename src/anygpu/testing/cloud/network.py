"""Loopback addresses for machines, so that each is a host of its own, and two simulators never share one."""

import random
import socket
from collections.abc import Iterator

CLAIM_PORT = 1337  # bound, never listened on, at the first address of a block: the block is taken
PREFIX = "127.77"


class AddressPool:
    """Claims blocks of 254 addresses as they are needed, and gives each address once."""

    def __init__(self) -> None:
        self._claims: list[socket.socket] = []
        self._left: Iterator[str] = iter(())

    def take(self) -> str:
        for address in self._left:
            return address
        block = self._claim()
        self._left = (f"{PREFIX}.{block}.{host}" for host in range(1, 255))
        return next(self._left)

    def close(self) -> None:
        for claim in self._claims:
            claim.close()
        self._claims.clear()
        self._left = iter(())

    def _claim(self) -> int:
        for block in random.SystemRandom().sample(range(256), 256):
            claim = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
            try:
                claim.bind((f"{PREFIX}.{block}.0", CLAIM_PORT))
            except OSError:
                claim.close()
                continue
            self._claims.append(claim)
            return block
        raise OSError(f"Every block of {PREFIX}.0.0/16 is in use by a simulator. End one of them.")
