"""Find or create what every launch in a region needs: an image, and a security group that allows SSH."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from anygpu.backends.clouds.ec2.api import AwsClient
from anygpu.backends.clouds.ec2.translate import RegionSetup
from anygpu.errors import LaunchRefused

GPU_IMAGE = "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) *"  # owned by amazon; includes driver and CUDA
CPU_IMAGE = "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-*"
CANONICAL = "099720109477"
GROUP = "anygpu-ssh"
Group = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionOptions:
    """The options of a backend that determine the image, network and disk of its machines."""

    image: str = ""  # an AMI id, or a name pattern with *; empty: our default
    subnet: str = ""
    security_group: str = ""
    volume_gib: int = 100
    public_address: bool = True
    ssh_port: int = 22
    ssh_from: str = "0.0.0.0/0"


NEW_GROUP = "(the security group that anygpu creates at the first launch)"


class RegionSetups:
    """Finds and caches what a launch needs in each region: an image and a security group.

    Machines with and without GPUs have separate images.
    """

    def __init__(self, aws: AwsClient, wishes: RegionOptions) -> None:
        self._aws = aws
        self._options = wishes
        self._setups: dict[tuple[str, bool], RegionSetup] = {}
        self._lock = asyncio.Lock()

    async def get(self, region: str, *, gpu: bool) -> RegionSetup:
        async with self._lock:  # concurrent launches share one search
            if (region, gpu) not in self._setups:
                self._setups[region, gpu] = await self._find(region, gpu=gpu)
            return self._setups[region, gpu]

    async def preview(self, region: str, *, gpu: bool) -> RegionSetup:
        """Return what `get` would return, without creating the security group."""
        if (region, gpu) in self._setups:
            return self._setups[region, gpu]
        setup = await self._with_image(region, gpu=gpu)
        if self._options.security_group:
            return replace(setup, security_group=self._options.security_group)
        group = await self._find_group(region, await self._vpc(region))
        return replace(setup, security_group=str(group["GroupId"]) if group else NEW_GROUP)

    async def _find(self, region: str, *, gpu: bool) -> RegionSetup:
        setup = await self._with_image(region, gpu=gpu)
        group = self._options.security_group or await self._security_group(region)
        return replace(setup, security_group=group)

    async def _with_image(self, region: str, *, gpu: bool) -> RegionSetup:
        image = await self._image(region, gpu=gpu)
        own_gib = max(
            (m["Ebs"].get("VolumeSize", 0) for m in image["BlockDeviceMappings"] if "Ebs" in m), default=0
        )
        return RegionSetup(
            image=image["ImageId"],
            root_device=image["RootDeviceName"],
            volume_gib=max(self._options.volume_gib, own_gib),
            subnet=self._options.subnet,
            public_address=self._options.public_address,
        )

    async def _image(self, region: str, *, gpu: bool) -> Any:
        wanted = self._options.image
        if wanted.startswith("ami-"):
            answer = await self._aws.read(region, "describe_images", ImageIds=[wanted])
        else:
            answer = await self._aws.read(region, "describe_images", **_image_filters(wanted, gpu=gpu))
        if not answer["Images"]:
            name = wanted or (GPU_IMAGE if gpu else CPU_IMAGE)
            raise LaunchRefused(
                f"The EC2 image (AMI) {name!r} does not exist in region {region}",
                hint="Set the option `image` of the backend to the id of an AMI in this region.",
            )
        return max(answer["Images"], key=lambda image: str(image.get("CreationDate", "")))

    async def _security_group(self, region: str) -> str:
        vpc = await self._vpc(region)
        group = await self._find_group(region, vpc) or await self._create_group(region, vpc)
        if not group.get("IpPermissions"):  # new, or its creator crashed before this step
            await self._allow_ssh(region, group["GroupId"])
        if not _allows_nodes(group):
            await self._allow(region, group["GroupId"], _node_rule(group["GroupId"]))
        return str(group["GroupId"])

    async def _vpc(self, region: str) -> str:
        if self._options.subnet:
            answer = await self._aws.read(region, "describe_subnets", SubnetIds=[self._options.subnet])
            return str(answer["Subnets"][0]["VpcId"])
        default = [{"Name": "is-default", "Values": ["true"]}]
        vpcs = (await self._aws.read(region, "describe_vpcs", Filters=default))["Vpcs"]
        if not vpcs:
            raise LaunchRefused(
                f"The EC2 region {region} has no default VPC, in which machines could be created",
                hint="Set the option `subnet` of the backend, or create a default VPC.",
            )
        return str(vpcs[0]["VpcId"])

    async def _find_group(self, region: str, vpc: str) -> Group | None:
        where = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "group-name", "Values": [self._group_name()]}]
        groups = (await self._aws.read(region, "describe_security_groups", Filters=where))["SecurityGroups"]
        return groups[0] if groups else None

    async def _create_group(self, region: str, vpc: str) -> Group:
        tags = [{"Key": "anygpu", "Value": "shared"}]
        try:
            made: Group = await self._aws.call(
                region,
                "create_security_group",
                GroupName=self._group_name(),
                Description="SSH to machines of anygpu",
                VpcId=vpc,
                TagSpecifications=[{"ResourceType": "security-group", "Tags": tags}],
            )
        except LaunchRefused as error:
            existing = (
                await self._find_group(region, vpc) if _has_code(error, "InvalidGroup.Duplicate") else None
            )
            if existing is None:
                raise
            return existing  # another server created it at the same time
        return made

    async def _allow_ssh(self, region: str, group: str) -> None:
        port = self._options.ssh_port
        rule = {
            "IpProtocol": "tcp",
            "FromPort": port,
            "ToPort": port,
            "IpRanges": [{"CidrIp": self._options.ssh_from}],
        }
        await self._allow(region, group, rule)

    async def _allow(self, region: str, group: str, rule: dict[str, Any]) -> None:
        try:
            await self._aws.call(
                region, "authorize_security_group_ingress", GroupId=group, IpPermissions=[rule]
            )
        except LaunchRefused as error:
            if not _has_code(error, "InvalidPermission.Duplicate"):
                raise

    def _group_name(self) -> str:
        return GROUP if self._options.ssh_port == 22 else f"{GROUP}-{self._options.ssh_port}"

    def forget(self, region: str) -> None:
        """Forget the cached image and security group of a region, because they may have been deleted."""
        self._setups = {key: setup for key, setup in self._setups.items() if key[0] != region}


def _image_filters(name: str, *, gpu: bool) -> dict[str, Any]:
    owner = "self" if name else ("amazon" if gpu else CANONICAL)
    filters = {
        "name": name or (GPU_IMAGE if gpu else CPU_IMAGE),
        "state": "available",
        "architecture": "x86_64",
    }
    return {"Owners": [owner], "Filters": [{"Name": k, "Values": [v]} for k, v in filters.items()]}


def _has_code(error: LaunchRefused, code: str) -> bool:
    return bool(error.details.get("vendor_code") == code)


def _node_rule(group: str) -> dict[str, Any]:
    """Return the rule that lets the machines of the group reach each other, for jobs on several machines."""
    return {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": group}]}


def _allows_nodes(group: Group) -> bool:
    pairs = [pair for rule in group.get("IpPermissions") or () for pair in rule.get("UserIdGroupPairs") or ()]
    return any(pair.get("GroupId") == group["GroupId"] for pair in pairs)
