"""What an AWS account has beside machines, region by region: groups, networks, spot requests."""

import itertools
from dataclasses import dataclass, field

from anygpu.testing.cloud.cloud import Cloud
from anygpu.testing.cloud.dialects.ec2.goods import VENDOR
from anygpu.testing.cloud.dialects.ec2.wire import Rendered


@dataclass(slots=True, kw_only=True, eq=False)
class Group:
    """A security group and the permissions it was given, as they were sent."""

    id: str
    name: str
    description: str
    vpc: str
    tags: dict[str, str] = field(default_factory=dict)
    ingress: list[dict[str, object]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True, eq=False)
class Reservation:
    """Capacity that is paid for already."""

    id: str
    type: str
    zone: str
    count: int
    tags: dict[str, str] = field(default_factory=dict)


class Region:
    """One region of the account."""

    def __init__(self, cloud: Cloud, name: str) -> None:
        self.cloud = cloud
        self.name = name
        number = 1 + sorted(VENDOR.regions).index(name)
        self.vpc = f"vpc-{number:017x}"
        self.subnets = {
            zone: f"subnet-{number:08x}{place:09x}" for place, zone in enumerate(VENDOR.zones(name))
        }
        self.default_group = Group(
            id=f"sg-{number:017x}", name="default", description="default VPC security group", vpc=self.vpc
        )
        self.groups: dict[str, Group] = {self.default_group.id: self.default_group}
        self.reservations: dict[str, Reservation] = {}
        self.rendered: dict[str, tuple[tuple[object, ...], Rendered]] = {}  # instances, as last listed


class Account:
    """Every region of the one account there is."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self._regions = {name: Region(cloud, name) for name in VENDOR.regions}
        self._requests = itertools.count(1)

    def at(self, region: str) -> Region:
        return self._regions[region]

    def request_id(self) -> str:
        return f"00000000-0000-4000-8000-{next(self._requests):012x}"
