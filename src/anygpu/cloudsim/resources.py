"""Resources of an account besides instances: login keys, public addresses, disks."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field

from anygpu.cloudsim.errors import CloudError, ErrorReason
from anygpu.cloudsim.instance import Instance
from anygpu.cloudsim.vendor import SimVendor


@dataclass(slots=True, kw_only=True, eq=False)
class LoginKey:
    """A public key registered with a provider."""

    id: str
    vendor: SimVendor
    region: str
    name: str
    public_key: str
    tags: dict[str, str] = field(default_factory=dict)
    created_at_ms: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class PublicAddress:
    """A public address, billed from allocation to release."""

    id: str
    vendor: SimVendor
    region: str
    ip: str
    name: str = ""
    instance: str = ""  # id of the associated instance
    allocated_at_ms: int = 0
    released_at_ms: int | None = None
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True, eq=False)
class SimDisk:
    """A disk of an instance, deleted or kept when the instance ends."""

    id: str
    vendor: SimVendor
    region: str
    zone: str
    size_gib: int
    name: str = ""
    instance: str = ""
    delete_with_instance: bool = True
    created_at_ms: int = 0
    tags: dict[str, str] = field(default_factory=dict)


class KeyStore:
    """Login keys by vendor, region and name. For a vendor whose keys are global, the region is ''."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._keys: dict[tuple[str, str, str], LoginKey] = {}
        self._count = itertools.count(1)

    def add(self, vendor: SimVendor, region: str, name: str, public_key: str) -> LoginKey:
        at = (vendor.name, region, name)
        if at in self._keys:
            raise CloudError(
                ErrorReason.CONFLICT,
                f"The key pair '{name}' already exists. Delete it first, or choose another name.",
                subject=name,
            )
        if len(public_key.split()) < 2:
            raise CloudError(
                ErrorReason.INVALID,
                "The key is not a public key in OpenSSH format. Send the text of a .pub file.",
                subject=name,
            )
        self._keys[at] = LoginKey(
            id=f"key-{next(self._count):017x}",
            vendor=vendor,
            region=region,
            name=name,
            public_key=public_key.strip(),
            created_at_ms=self._now_ms(),
        )
        return self._keys[at]

    def find(self, vendor: SimVendor, region: str, name: str) -> LoginKey:
        """Return a key by name or id. Raise CloudError if there is none."""
        for key in self.all(vendor, region):
            if name in (key.name, key.id):
                return key
        raise CloudError(
            ErrorReason.NOT_FOUND, f"The key pair '{name}' does not exist. Add the key first.", subject=name
        )

    def all(self, vendor: SimVendor, region: str = "") -> list[LoginKey]:
        return [key for key in self._keys.values() if key.vendor.name == vendor.name and key.region == region]

    def remove(self, vendor: SimVendor, region: str, name: str) -> None:
        key = self.find(vendor, region, name)
        del self._keys[(vendor.name, region, key.name)]


class AddressStore:
    """Public addresses. Released addresses are kept for billing."""

    def __init__(
        self, now_ms: Callable[[], int], take_ip: Callable[[], str], new_id: Callable[[str], str]
    ) -> None:
        self._now_ms = now_ms
        self.take_ip = take_ip
        self._new_id = new_id
        self._addresses: dict[str, PublicAddress] = {}

    def allocate(self, vendor: SimVendor, region: str, *, name: str = "", id: str = "") -> PublicAddress:
        address = PublicAddress(
            id=id or self._new_id("eipalloc-"),
            vendor=vendor,
            region=region,
            ip=self.take_ip(),
            name=name,
            allocated_at_ms=self._now_ms(),
        )
        self._addresses[address.id] = address
        return address

    def all(self, vendor: SimVendor) -> list[PublicAddress]:
        return [
            each
            for each in self._addresses.values()
            if each.vendor.name == vendor.name and not each.released_at_ms
        ]

    def find(self, vendor: SimVendor, id: str) -> PublicAddress:
        for address in self.all(vendor):
            if id in (address.id, address.ip):
                return address
        raise CloudError(
            ErrorReason.NOT_FOUND,
            f"The address {id} does not exist. List the addresses for their ids.",
            subject=id,
        )

    def release(self, address: PublicAddress) -> None:
        """Release an address, which ends its billing.

        Raise CloudError if the address is associated with an instance.
        """
        if address.instance:
            raise CloudError(
                ErrorReason.CONFLICT,
                f"The address {address.id} is in use by a machine. Remove it from the machine first.",
                subject=address.id,
            )
        address.released_at_ms = self._now_ms()

    def ever_allocated(self) -> list[PublicAddress]:
        return list(self._addresses.values())


class DiskStore:
    """The disks of instances, including those kept after an instance ended."""

    def __init__(self, now_ms: Callable[[], int], new_id: Callable[[str], str]) -> None:
        self._now_ms = now_ms
        self._new_id = new_id
        self._disks: dict[str, SimDisk] = {}

    def create_root_disk(self, instance: Instance) -> SimDisk:
        disk = SimDisk(
            id=self._new_id("vol-"),
            vendor=instance.vendor,
            region=instance.region,
            zone=instance.zone,
            size_gib=instance.order.disk_gib or instance.type.disk_gib,
            name=instance.name,
            instance=instance.id,
            delete_with_instance=not instance.order.keep_disk,
            created_at_ms=self._now_ms(),
        )
        self._disks[disk.id] = disk
        instance.disks.append(disk.id)
        return disk

    def all(self, vendor: SimVendor) -> list[SimDisk]:
        return [disk for disk in self._disks.values() if disk.vendor.name == vendor.name]

    def find(self, vendor: SimVendor, id: str) -> SimDisk:
        disk = self._disks.get(id)
        if disk is None or disk.vendor.name != vendor.name:
            raise CloudError(
                ErrorReason.NOT_FOUND,
                f"The volume '{id}' does not exist. List the volumes for their ids.",
                subject=id,
            )
        return disk

    def remove(self, vendor: SimVendor, id: str) -> None:
        disk = self.find(vendor, id)
        if disk.instance:
            raise CloudError(
                ErrorReason.CONFLICT,
                f"The volume {id} is attached to the machine {disk.instance}. Terminate the machine first.",
                subject=id,
            )
        del self._disks[id]

    def detach(self, instance: Instance) -> None:
        """Detach the disks of an ended instance. Delete those with `delete_with_instance`."""
        for disk in [self._disks[id] for id in instance.disks if id in self._disks]:
            disk.instance = ""
            if disk.delete_with_instance:
                del self._disks[disk.id]
