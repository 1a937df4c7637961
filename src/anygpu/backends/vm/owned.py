"""One account, several servers: every resource carries its attempt's name and a mark of the server that made it.

Without the mark, two servers that share an account would each sweep away what they do not know: the other's machines.
The mark is computed from the server's secret, so servers that share a journal and its keys share their machines too.
"""

import hashlib
import hmac
from collections.abc import Sequence
from dataclasses import replace

from anygpu.backends.contract import Leftover
from anygpu.backends.vm.provider import Machine, Order, Provider


def owner_mark(secret: bytes) -> str:
    return hmac.new(secret, b"owner of machines", hashlib.sha256).hexdigest()[:8]


class OwnedMachines:
    """A provider seen through one server's eyes: attempts' names inside, marked names outside."""

    def __init__(self, provider: Provider, mark: str) -> None:
        self._provider = provider
        self._mark = mark

    async def create(self, order: Order) -> Machine:
        made = await self._provider.create(replace(order, name=self._marked(order.name)))
        return replace(made, name=order.name)

    async def machines(self) -> Sequence[Machine]:
        listed = await self._provider.machines()
        return [replace(m, name=self._plain(m.name)) for m in listed if self._is_ours(m.name)]

    async def destroy(self, machine: Machine) -> None:
        await self._provider.destroy(self.outside(machine))

    async def host_keys(self, machine: Machine) -> Sequence[str]:
        return await self._provider.host_keys(self.outside(machine))

    async def leftovers(self) -> Sequence[Leftover]:
        listed = await self._provider.leftovers()
        return [replace(left, name=self._plain(left.name)) for left in listed if self._is_ours(left.name)]

    async def remove(self, leftover: Leftover) -> None:
        await self._provider.remove(replace(leftover, name=self._marked(leftover.name)))

    def outside(self, machine: Machine) -> Machine:
        return replace(machine, name=self._marked(machine.name))

    def _marked(self, name: str) -> str:
        return f"{name}-{self._mark}"

    def _plain(self, name: str) -> str:
        return name.removesuffix(f"-{self._mark}")

    def _is_ours(self, name: str) -> bool:
        return name.endswith(f"-{self._mark}")
