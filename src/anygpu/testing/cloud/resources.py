"""What is rented beside machines: login keys, addresses, disks. All of them can be left behind."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from anygpu.testing.cloud.refusals import Refusal, Why
from anygpu.testing.cloud.vendor import Vendor


@dataclass(slots=True, kw_only=True, eq=False)
class Key:
    """A public key registered with a provider."""

    id: str
    vendor: Vendor
    region: str
    name: str
    public_key: str
    tags: dict[str, str] = field(default_factory=dict)
    created_at_ms: int = 0


@dataclass(slots=True, kw_only=True, eq=False)
class Address:
    """A public address; it bills from its allocation to its release, in use or not."""

    id: str
    vendor: Vendor
    region: str
    ip: str
    name: str = ""
    instance: str = ""  # id of the machine that answers there
    allocated_at_ms: int = 0
    released_at_ms: int | None = None
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True, kw_only=True, eq=False)
class Disk:
    """A disk; one that outlives its machine is a leftover."""

    id: str
    vendor: Vendor
    region: str
    zone: str
    size_gib: int
    name: str = ""
    instance: str = ""
    goes_with_machine: bool = True
    created_at_ms: int = 0
    tags: dict[str, str] = field(default_factory=dict)
    native: dict[str, Any] = field(default_factory=dict)


class Keys:
    """Registered login keys, by vendor, region and name; a vendor whose keys are global uses region ''."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._keys: dict[tuple[str, str, str], Key] = {}
        self._count = itertools.count(1)

    def add(self, vendor: Vendor, region: str, name: str, public_key: str) -> Key:
        at = (vendor.name, region, name)
        if at in self._keys:
            raise Refusal(Why.CONFLICT, f"The key pair '{name}' already exists.", what=name)
        if len(public_key.split()) < 2:
            raise Refusal(Why.INVALID, "Key is not in valid OpenSSH public key format", what=name)
        self._keys[at] = Key(
            id=f"key-{next(self._count):017x}",
            vendor=vendor,
            region=region,
            name=name,
            public_key=public_key.strip(),
            created_at_ms=self._now_ms(),
        )
        return self._keys[at]

    def find(self, vendor: Vendor, region: str, name: str) -> Key:
        """By name or by id."""
        for key in self.all(vendor, region):
            if name in (key.name, key.id):
                return key
        raise Refusal(Why.NOT_FOUND, f"The key pair '{name}' does not exist", what=name)

    def all(self, vendor: Vendor, region: str = "") -> list[Key]:
        return [key for key in self._keys.values() if key.vendor.name == vendor.name and key.region == region]

    def remove(self, vendor: Vendor, region: str, name: str) -> None:
        key = self.find(vendor, region, name)
        del self._keys[(vendor.name, region, key.name)]
