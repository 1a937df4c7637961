"""EC2's actions on regions, zones, instance types and spot prices."""

from anygpu.cloudsim.apis.ec2 import wire
from anygpu.cloudsim.apis.ec2.account import AwsRegion
from anygpu.cloudsim.apis.ec2.errors import Ec2Error
from anygpu.cloudsim.apis.ec2.instance_types import VENDOR
from anygpu.cloudsim.apis.ec2.wire import Fields, apply_filters
from anygpu.cloudsim.vendor import SimMachineType

PRODUCT = "Linux/UNIX"


async def describe_regions(region: AwsRegion, fields: Fields) -> Fields:
    names = fields.get("RegionName", [])
    items = [
        {
            "regionName": name,
            "regionEndpoint": f"ec2.{name}.amazonaws.com",
            "optInStatus": "opt-in-not-required",
        }
        for name in VENDOR.regions
        if not names or name in names
    ]
    return {"regionInfo": apply_filters(items, fields, lambda item: {"region-name": item["regionName"]})}


async def describe_availability_zones(region: AwsRegion, fields: Fields) -> Fields:
    items = [
        {
            "zoneName": zone,
            "zoneState": "available",
            "regionName": region.name,
            "zoneId": f"{region.name}-az{number}",
            "zoneType": "availability-zone",
            "optInStatus": "opt-in-not-required",
        }
        for number, zone in enumerate(VENDOR.zones(region.name), 1)
    ]
    facts = {
        "zone-name": "zoneName",
        "state": "zoneState",
        "region-name": "regionName",
        "zone-type": "zoneType",
    }
    return {
        "availabilityZoneInfo": apply_filters(
            items, fields, lambda item: {name: str(item[key]) for name, key in facts.items()}
        )
    }


async def describe_instance_types(region: AwsRegion, fields: Fields) -> Fields:
    names = fields.get("InstanceType", [])
    for name in names:
        if VENDOR.find_type(name) is None:
            message = (
                f"The instance type [{name}] does not exist. DescribeInstanceTypes without names lists all."
            )
            raise Ec2Error("InvalidInstanceType", message)
    types = [machine_type for machine_type in VENDOR.types if not names or machine_type.name in names]
    shown, token = wire.page(apply_filters(types, fields, _type_filter_values), fields, default=100)
    return {"instanceTypeSet": [_describe_type(machine_type) for machine_type in shown], "nextToken": token}


async def describe_instance_type_offerings(region: AwsRegion, fields: Fields) -> Fields:
    by_zone = fields.get("LocationType", "region") == "availability-zone"
    places = VENDOR.zones(region.name) if by_zone else (region.name,)
    items = [
        {
            "instanceType": machine_type.name,
            "locationType": "availability-zone" if by_zone else "region",
            "location": place,
        }
        for machine_type in VENDOR.types
        for place in places
    ]
    matching = apply_filters(
        items, fields, lambda item: {"instance-type": item["instanceType"], "location": item["location"]}
    )
    shown, token = wire.page(matching, fields)
    return {"instanceTypeOfferingSet": shown, "nextToken": token}


async def describe_spot_price_history(region: AwsRegion, fields: Fields) -> Fields:
    """Return the current spot prices, one entry for each type and zone, instead of a history."""
    names = fields.get("InstanceType", [])
    only_zone = fields.get("AvailabilityZone", "")
    products = fields.get("ProductDescription", [PRODUCT])
    items = [
        _spot_price(region, machine_type, zone)
        for machine_type in VENDOR.types
        for zone in VENDOR.zones(region.name)
        if (not names or machine_type.name in names) and only_zone in ("", zone) and _includes_linux(products)
    ]
    facts = {
        "instance-type": "instanceType",
        "availability-zone": "availabilityZone",
        "product-description": "productDescription",
    }
    matching = apply_filters(items, fields, lambda item: {name: item[key] for name, key in facts.items()})
    shown, token = wire.page(matching, fields)
    return {"spotPriceHistorySet": shown, "nextToken": token}


def _includes_linux(products: list[str]) -> bool:
    return any(product.startswith(PRODUCT) for product in products)


def _spot_price(region: AwsRegion, machine_type: SimMachineType, zone: str) -> dict[str, str]:
    price = region.cloud.price(machine_type, zone, spot=True)
    return {
        "instanceType": machine_type.name,
        "productDescription": PRODUCT,
        "spotPrice": f"{price / 1_000_000:.6f}",
        "timestamp": wire.timestamp(region.cloud.clock.now_ms()) or "",
        "availabilityZone": zone,
    }


def _type_filter_values(machine_type: SimMachineType) -> dict[str, str]:
    return {
        "instance-type": machine_type.name,
        "current-generation": "true",
        "bare-metal": "false",
        "processor-info.supported-architecture": "x86_64",
        "supported-usage-class": "spot",
        "vcpu-info.default-vcpus": str(machine_type.vcpus),
        "memory-info.size-in-mib": str(round(machine_type.memory_gib * 1024)),
        "hypervisor": "nitro",
    }


def _describe_type(machine_type: SimMachineType) -> Fields:
    return {
        "instanceType": machine_type.name,
        "currentGeneration": True,
        "freeTierEligible": False,
        "supportedUsageClasses": ["on-demand", "spot"],
        "supportedRootDeviceTypes": ["ebs"],
        "supportedVirtualizationTypes": ["hvm"],
        "bareMetal": False,
        "hypervisor": "nitro",
        "processorInfo": {"supportedArchitectures": ["x86_64"], "manufacturer": "Intel"},
        "vCpuInfo": {
            "defaultVCpus": machine_type.vcpus,
            "defaultCores": max(1, machine_type.vcpus // 2),
            "defaultThreadsPerCore": 2,
        },
        "memoryInfo": {"sizeInMiB": round(machine_type.memory_gib * 1024)},
        "instanceStorageSupported": False,
        "gpuInfo": _gpu_info(machine_type),
    }


def _gpu_info(machine_type: SimMachineType) -> Fields | None:
    if not machine_type.gpu_count:
        return None
    each_mib = round(machine_type.gpu_memory_gib * 1024)
    card = {
        "name": machine_type.gpu_kind,
        "manufacturer": "NVIDIA",
        "count": machine_type.gpu_count,
        "memoryInfo": {"sizeInMiB": each_mib},
    }
    return {"gpus": [card], "totalGpuMemoryInMiB": each_mib * machine_type.gpu_count}
