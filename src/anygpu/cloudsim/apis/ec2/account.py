"""The state of the AWS account apart from instances: regions, security groups, subnets, reservations."""

import itertools
from dataclasses import dataclass, field

from anygpu.cloudsim.apis.ec2.instance_types import VENDOR
from anygpu.cloudsim.apis.ec2.wire import RenderedXml
from anygpu.cloudsim.cloud import Cloud


@dataclass(slots=True, kw_only=True, eq=False)
class SimSecurityGroup:
    """A security group, with its ingress permissions as they were in the request."""

    id: str
    name: str
    description: str
    vpc: str
    tags: dict[str, str] = field(default_factory=dict)
    ingress: list[dict[str, object]] = field(default_factory=list)


@dataclass(slots=True, kw_only=True, eq=False)
class SimReservation:
    """A capacity reservation in the simulated account."""

    id: str
    type: str
    zone: str
    count: int
    tags: dict[str, str] = field(default_factory=dict)


class AwsRegion:
    """One region of the simulated AWS account."""

    def __init__(self, cloud: Cloud, name: str) -> None:
        self.cloud = cloud
        self.name = name
        number = 1 + sorted(VENDOR.regions).index(name)
        self.vpc = f"vpc-{number:017x}"
        self.subnets = {
            zone: f"subnet-{number:08x}{place:09x}" for place, zone in enumerate(VENDOR.zones(name))
        }
        self.default_group = SimSecurityGroup(
            id=f"sg-{number:017x}", name="default", description="default VPC security group", vpc=self.vpc
        )
        self.groups: dict[str, SimSecurityGroup] = {self.default_group.id: self.default_group}
        self.reservations: dict[str, SimReservation] = {}
        self.rendered_instances: dict[
            str, tuple[tuple[object, ...], RenderedXml]
        ] = {}  # cached XML by instance id, with the state from which it was made


class AwsAccount:
    """The simulated AWS account, with all regions."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud
        self._regions = {name: AwsRegion(cloud, name) for name in VENDOR.regions}
        self._requests = itertools.count(1)

    def region(self, region: str) -> AwsRegion:
        return self._regions[region]

    def new_request_id(self) -> str:
        return f"00000000-0000-4000-8000-{next(self._requests):012x}"
