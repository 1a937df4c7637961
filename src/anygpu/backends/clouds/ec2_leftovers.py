"""Disks, addresses and keys that carry our tag and have no machine. We make none of them that outlives its machine;
what is here was left by a launch that failed half way, or by a hand."""

import contextlib

from anygpu.backends.clouds.ec2_api import Aws
from anygpu.backends.clouds.ec2_words import NAME_TAG, name_of
from anygpu.backends.contract import Leftover
from anygpu.backends.vm.errors import NotThere

OURS = {"Name": "tag-key", "Values": [NAME_TAG]}
FREE = {"Name": "status", "Values": ["available"]}
REMOVE = {
    "disk": ("delete_volume", "VolumeId"),
    "address": ("release_address", "AllocationId"),
    "key": ("delete_key_pair", "KeyName"),
}


async def leftovers(aws: Aws, region: str) -> list[Leftover]:
    disks = [v async for v in aws.pages(region, "describe_volumes", "Volumes", Filters=[OURS, FREE])]
    addresses = (await aws.read(region, "describe_addresses", Filters=[OURS]))["Addresses"]
    keys = (await aws.read(region, "describe_key_pairs", Filters=[OURS]))["KeyPairs"]
    return [
        *(Leftover(kind="disk", id=v["VolumeId"], name=name_of(v), region=region) for v in disks),
        *(
            Leftover(kind="address", id=a["AllocationId"], name=name_of(a), region=region)
            for a in addresses
            if not a.get("AssociationId")
        ),
        *(Leftover(kind="key", id=k["KeyName"], name=name_of(k), region=region) for k in keys),
    ]


async def remove(aws: Aws, leftover: Leftover) -> None:
    operation, field = REMOVE[leftover.kind]
    with contextlib.suppress(NotThere):
        await aws.call(leftover.region, operation, **{field: leftover.id})
