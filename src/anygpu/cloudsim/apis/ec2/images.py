"""The machine images (AMIs) of the simulated EC2."""

from dataclasses import dataclass

from anygpu.cloudsim.apis.ec2 import wire
from anygpu.cloudsim.apis.ec2.account import AwsRegion
from anygpu.cloudsim.apis.ec2.errors import Ec2Error
from anygpu.cloudsim.apis.ec2.wire import Fields, apply_filters


@dataclass(frozen=True, slots=True)
class Ec2Image:
    id: str
    name: str
    owner: str  # an account number
    alias: str  # alias of the owner that requests may use
    created: str


# Names as AWS (898082745236) and Canonical (099720109477) publish them.
IMAGES = (
    Ec2Image(
        "ami-0a00000000000001",
        "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) 20260801",
        "898082745236",
        "amazon",
        "2026-08-01T00:00:00.000Z",
    ),
    Ec2Image(
        "ami-0a00000000000002",
        "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 22.04) 20260601",
        "898082745236",
        "amazon",
        "2026-06-01T00:00:00.000Z",
    ),
    Ec2Image(
        "ami-0a00000000000003",
        "Deep Learning Base OSS Nvidia Driver GPU AMI (Ubuntu 24.04) 20260801",
        "898082745236",
        "amazon",
        "2026-08-01T00:00:00.000Z",
    ),
    Ec2Image(
        "ami-0a00000000000004",
        "ubuntu/images/hvm-ssd/ubuntu-jammy-22.04-amd64-server-20260801",
        "099720109477",
        "",
        "2026-08-01T00:00:00.000Z",
    ),
    Ec2Image(
        "ami-0a00000000000005",
        "ubuntu/images/hvm-ssd-gp3/ubuntu-noble-24.04-amd64-server-20260801",
        "099720109477",
        "",
        "2026-08-01T00:00:00.000Z",
    ),
)


def check_image(region: AwsRegion, id: str) -> None:
    if not id:
        raise Ec2Error("MissingParameter", "The request has no parameter ImageId. Send the id of an image.")
    if not any(image.id == id for image in IMAGES):
        raise Ec2Error(
            "InvalidAMIID.NotFound", f"The image id '[{id}]' does not exist. DescribeImages lists the images."
        )


async def describe_images(region: AwsRegion, fields: Fields) -> Fields:
    owners, ids = fields.get("Owner", []), fields.get("ImageId", [])
    for id in ids:
        check_image(region, id)
    chosen = [
        image
        for image in IMAGES
        if (not owners or image.owner in owners or image.alias in owners) and (not ids or image.id in ids)
    ]
    return {"imagesSet": [_describe_image(image) for image in apply_filters(chosen, fields, _filter_values)]}


def _filter_values(image: Ec2Image) -> dict[str, str]:
    return {
        "name": image.name,
        "image-id": image.id,
        "state": "available",
        "architecture": "x86_64",
        "virtualization-type": "hvm",
        "root-device-type": "ebs",
        "owner-id": image.owner,
        "owner-alias": image.alias,
        "image-type": "machine",
        "is-public": "true",
    }


def _describe_image(image: Ec2Image) -> wire.Fields:
    return {
        "imageId": image.id,
        "name": image.name,
        "description": image.name,
        "imageOwnerId": image.owner,
        "imageOwnerAlias": image.alias or None,
        "imageState": "available",
        "isPublic": True,
        "architecture": "x86_64",
        "imageType": "machine",
        "creationDate": image.created,
        "rootDeviceType": "ebs",
        "rootDeviceName": "/dev/sda1",
        "virtualizationType": "hvm",
        "hypervisor": "xen",
        "enaSupport": True,
        "platformDetails": "Linux/UNIX",
        "usageOperation": "RunInstances",
        "blockDeviceMapping": [
            {
                "deviceName": "/dev/sda1",
                "ebs": {"volumeSize": 65, "volumeType": "gp3", "deleteOnTermination": True},
            }
        ],
    }
