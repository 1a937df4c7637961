"""EC2's actions on VPCs, subnets, security groups and addresses."""

from collections.abc import Mapping

from anygpu.cloudsim.apis.ec2 import wire
from anygpu.cloudsim.apis.ec2.account import AwsRegion, SimSecurityGroup
from anygpu.cloudsim.apis.ec2.describe import instance_filter_values
from anygpu.cloudsim.apis.ec2.errors import Ec2Error
from anygpu.cloudsim.apis.ec2.instance_types import ACCOUNT, VENDOR
from anygpu.cloudsim.apis.ec2.wire import Fields, apply_filters
from anygpu.cloudsim.errors import CloudError


async def describe_vpcs(region: AwsRegion, fields: Fields) -> Fields:
    vpc = {
        "vpcId": region.vpc,
        "ownerId": ACCOUNT,
        "state": "available",
        "cidrBlock": "172.31.0.0/16",
        "isDefault": True,
    }
    matching = apply_filters(
        [vpc],
        fields,
        lambda item: {"vpc-id": region.vpc, "is-default": "true", "isDefault": "true", "state": "available"},
    )
    return {"vpcSet": matching}


async def describe_subnets(region: AwsRegion, fields: Fields) -> Fields:
    ids = fields.get("SubnetId", [])
    items = [
        {
            "subnetId": id,
            "state": "available",
            "vpcId": region.vpc,
            "cidrBlock": f"172.31.{16 * number}.0/20",
            "availableIpAddressCount": 4091,
            "availabilityZone": zone,
            "defaultForAz": True,
            "mapPublicIpOnLaunch": True,
        }
        for number, (zone, id) in enumerate(region.subnets.items())
        if not ids or id in ids
    ]
    if len(items) < len(ids):
        raise Ec2Error(
            "InvalidSubnetID.NotFound",
            f"The subnet ID '{ids[0]}' does not exist. DescribeSubnets without ids lists the subnets.",
        )

    def facts(item: Mapping[str, object]) -> dict[str, str]:
        return {
            "subnet-id": str(item["subnetId"]),
            "vpc-id": region.vpc,
            "availability-zone": str(item["availabilityZone"]),
            "default-for-az": "true",
            "state": "available",
            "map-public-ip-on-launch": "true",
        }

    return {"subnetSet": apply_filters(items, fields, facts)}


async def create_security_group(region: AwsRegion, fields: Fields) -> Fields:
    name = fields["GroupName"]
    if any(group.name == name for group in region.groups.values()):
        message = (
            f"The security group '{name}' already exists in VPC '{region.vpc}'. Use it, or choose another "
            "name."
        )
        raise Ec2Error("InvalidGroup.Duplicate", message)
    group = SimSecurityGroup(
        id=region.cloud.new_id("sg-"),
        name=name,
        description=fields.get("GroupDescription", ""),
        vpc=fields.get("VpcId", region.vpc),
        tags=wire.tags_for(fields, "security-group"),
    )
    region.groups[group.id] = group
    return {"return": True, "groupId": group.id, "tagSet": wire.tag_set(group.tags)}


async def authorize_security_group_ingress(region: AwsRegion, fields: Fields) -> Fields:
    group = _find_group(region, fields)
    for permission in fields.get("IpPermissions", []):
        if permission in group.ingress:
            raise Ec2Error(
                "InvalidPermission.Duplicate",
                "The security group already has this rule, so nothing was changed.",
            )
        group.ingress.append(permission)
    return {"return": True, "securityGroupRuleSet": None}


async def describe_security_groups(region: AwsRegion, fields: Fields) -> Fields:
    ids, names = fields.get("GroupId", []), fields.get("GroupName", [])
    for id in ids:
        if id not in region.groups:
            raise Ec2Error("InvalidGroup.NotFound", f"The security group '{id}' does not exist")
    chosen = [
        group
        for group in region.groups.values()
        if (not ids or group.id in ids) and (not names or group.name in names)
    ]
    matching = apply_filters(chosen, fields, _group_filter_values, lambda group: group.tags)
    shown, token = wire.page(matching, fields)
    return {"securityGroupInfo": [_describe_group(group) for group in shown], "nextToken": token}


async def delete_security_group(region: AwsRegion, fields: Fields) -> Fields:
    group = _find_group(region, fields)
    for instance in region.cloud.instances.values():
        mine = (
            instance.vendor.name == VENDOR.name
            and instance.region == region.name
            and not instance.state.is_ended
        )
        if mine and group.id in instance_filter_values(region, instance)["instance.group-id"]:
            raise Ec2Error(
                "DependencyViolation",
                f"The security group {group.id} is in use by an instance. Terminate the instance first.",
            )
    del region.groups[group.id]
    return {"return": True, "groupId": group.id}


async def describe_addresses(region: AwsRegion, fields: Fields) -> Fields:
    mine = [address for address in region.cloud.addresses.all(VENDOR) if address.region == region.name]
    matching = apply_filters(
        mine,
        fields,
        lambda each: {
            "allocation-id": each.id,
            "public-ip": each.ip,
            "instance-id": each.instance,
            "domain": "vpc",
        },
        lambda each: each.tags,
    )
    items = [
        {
            "publicIp": each.ip,
            "allocationId": each.id,
            "domain": "vpc",
            "instanceId": each.instance or None,
            "tagSet": wire.tag_set(each.tags),
        }
        for each in matching
    ]
    return {"addressesSet": items}


async def allocate_address(region: AwsRegion, fields: Fields) -> Fields:
    tags = wire.tags_for(fields, "elastic-ip")
    address = region.cloud.addresses.allocate(VENDOR, region.name, name=tags.get("Name", ""))
    address.tags.update(tags)
    return {"publicIp": address.ip, "allocationId": address.id, "domain": "vpc"}


async def release_address(region: AwsRegion, fields: Fields) -> Fields:
    id = fields.get("AllocationId", "")
    try:
        region.cloud.addresses.release(region.cloud.addresses.find(VENDOR, id))
    except CloudError as error:
        message = f"The allocation ID '{id}' does not exist. DescribeAddresses lists the addresses."
        raise Ec2Error("InvalidAllocationID.NotFound", message) from error
    return {"return": True}


def _find_group(region: AwsRegion, fields: Fields) -> SimSecurityGroup:
    id, name = fields.get("GroupId", ""), fields.get("GroupName", "")
    for group in region.groups.values():
        if group.id == id or (name and group.name == name):
            return group
    raise Ec2Error("InvalidGroup.NotFound", f"The security group '{id or name}' does not exist")


def _group_filter_values(group: SimSecurityGroup) -> dict[str, str]:
    return {
        "group-id": group.id,
        "group-name": group.name,
        "vpc-id": group.vpc,
        "description": group.description,
        "owner-id": ACCOUNT,
    }


def _describe_group(group: SimSecurityGroup) -> Fields:
    return {
        "ownerId": ACCOUNT,
        "groupId": group.id,
        "groupName": group.name,
        "groupDescription": group.description,
        "vpcId": group.vpc,
        "ipPermissions": [_permission(each) for each in group.ingress],
        "ipPermissionsEgress": [],
        "tagSet": wire.tag_set(group.tags),
    }


def _permission(sent: Mapping[str, object]) -> Fields:
    ranges, groups = sent.get("IpRanges", []), sent.get("Groups", [])
    return {
        "ipProtocol": sent.get("IpProtocol"),
        "fromPort": sent.get("FromPort"),
        "toPort": sent.get("ToPort"),
        "ipRanges": [{"cidrIp": each.get("CidrIp")} for each in ranges] if isinstance(ranges, list) else [],
        "groups": [{"groupId": each.get("GroupId")} for each in groups] if isinstance(groups, list) else [],
    }
