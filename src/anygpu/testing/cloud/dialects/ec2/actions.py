"""Every action of the Query API that is spoken here."""

from collections.abc import Awaitable, Callable, Mapping

from anygpu.testing.cloud.dialects.ec2 import belongings, images, instances, network, offers
from anygpu.testing.cloud.dialects.ec2.account import Region
from anygpu.testing.cloud.dialects.ec2.wire import Fields

Action = Callable[[Region, Fields], Awaitable[Fields]]
ACTIONS: Mapping[str, Action] = {
    "RunInstances": instances.run_instances,
    "DescribeInstances": instances.describe_instances,
    "DescribeInstanceStatus": instances.describe_instance_status,
    "TerminateInstances": instances.terminate_instances,
    "GetConsoleOutput": instances.get_console_output,
    "DescribeImages": images.describe_images,
    "DescribeRegions": offers.describe_regions,
    "DescribeAvailabilityZones": offers.describe_availability_zones,
    "DescribeInstanceTypes": offers.describe_instance_types,
    "DescribeInstanceTypeOfferings": offers.describe_instance_type_offerings,
    "DescribeSpotPriceHistory": offers.describe_spot_price_history,
    "DescribeVpcs": network.describe_vpcs,
    "DescribeSubnets": network.describe_subnets,
    "CreateSecurityGroup": network.create_security_group,
    "AuthorizeSecurityGroupIngress": network.authorize_security_group_ingress,
    "DescribeSecurityGroups": network.describe_security_groups,
    "DeleteSecurityGroup": network.delete_security_group,
    "DescribeAddresses": network.describe_addresses,
    "AllocateAddress": network.allocate_address,
    "ReleaseAddress": network.release_address,
    "ImportKeyPair": belongings.import_key_pair,
    "DescribeKeyPairs": belongings.describe_key_pairs,
    "DeleteKeyPair": belongings.delete_key_pair,
    "DescribeVolumes": belongings.describe_volumes,
    "DeleteVolume": belongings.delete_volume,
    "DescribeSpotInstanceRequests": belongings.describe_spot_instance_requests,
    "CancelSpotInstanceRequests": belongings.cancel_spot_instance_requests,
    "CreateCapacityReservation": belongings.create_capacity_reservation,
    "DescribeCapacityReservations": belongings.describe_capacity_reservations,
    "DescribeReservedInstances": belongings.describe_reserved_instances,
    "CreateTags": belongings.create_tags,
}
