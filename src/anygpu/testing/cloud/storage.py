"""The addresses and disks that exist."""

from collections.abc import Callable

from anygpu.testing.cloud.instance import Instance
from anygpu.testing.cloud.refusals import Refusal, Why
from anygpu.testing.cloud.resources import Address, Disk
from anygpu.testing.cloud.vendor import Vendor


class Addresses:
    """Public addresses rented apart from machines. Released ones stay in the books."""

    def __init__(
        self, now_ms: Callable[[], int], take_ip: Callable[[], str], new_id: Callable[[str], str]
    ) -> None:
        self._now_ms = now_ms
        self.take_ip = take_ip
        self._new_id = new_id
        self._ever: dict[str, Address] = {}

    def allocate(self, vendor: Vendor, region: str, *, name: str = "", id: str = "") -> Address:
        address = Address(
            id=id or self._new_id("eipalloc-"),
            vendor=vendor,
            region=region,
            ip=self.take_ip(),
            name=name,
            allocated_at_ms=self._now_ms(),
        )
        self._ever[address.id] = address
        return address

    def all(self, vendor: Vendor) -> list[Address]:
        return [
            each
            for each in self._ever.values()
            if each.vendor.name == vendor.name and not each.released_at_ms
        ]

    def find(self, vendor: Vendor, id: str) -> Address:
        for address in self.all(vendor):
            if id in (address.id, address.ip):
                return address
        raise Refusal(Why.NOT_FOUND, f"There is no address {id}.", what=id)

    def release(self, address: Address) -> None:
        """Refused while a machine answers there."""
        if address.instance:
            raise Refusal(Why.CONFLICT, f"The address {address.id} is in use.", what=address.id)
        address.released_at_ms = self._now_ms()

    def ever(self) -> list[Address]:
        return list(self._ever.values())


class Disks:
    """Disks made with machines; those that do not go with them are left behind."""

    def __init__(self, now_ms: Callable[[], int], new_id: Callable[[str], str]) -> None:
        self._now_ms = now_ms
        self._new_id = new_id
        self._disks: dict[str, Disk] = {}

    def make_root(self, instance: Instance) -> Disk:
        disk = Disk(
            id=self._new_id("vol-"),
            vendor=instance.vendor,
            region=instance.region,
            zone=instance.zone,
            size_gib=instance.order.disk_gib or instance.type.disk_gib,
            name=instance.name,
            instance=instance.id,
            goes_with_machine=not instance.order.keeps_disk,
            created_at_ms=self._now_ms(),
        )
        self._disks[disk.id] = disk
        instance.disks.append(disk.id)
        return disk

    def all(self, vendor: Vendor) -> list[Disk]:
        return [disk for disk in self._disks.values() if disk.vendor.name == vendor.name]

    def find(self, vendor: Vendor, id: str) -> Disk:
        disk = self._disks.get(id)
        if disk is None or disk.vendor.name != vendor.name:
            raise Refusal(Why.NOT_FOUND, f"The volume '{id}' does not exist.", what=id)
        return disk

    def remove(self, vendor: Vendor, id: str) -> None:
        disk = self.find(vendor, id)
        if disk.instance:
            raise Refusal(Why.CONFLICT, f"Volume {id} is currently attached to {disk.instance}", what=id)
        del self._disks[id]

    def let_go(self, instance: Instance) -> None:
        """The machine has ended."""
        for disk in [self._disks[id] for id in instance.disks if id in self._disks]:
            disk.instance = ""
            if disk.goes_with_machine:
                del self._disks[disk.id]
