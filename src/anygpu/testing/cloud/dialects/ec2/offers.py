"""What there is to rent, where, and for how much."""

from anygpu.testing.cloud.dialects.ec2 import wire
from anygpu.testing.cloud.dialects.ec2.account import Region
from anygpu.testing.cloud.dialects.ec2.failure import Failure
from anygpu.testing.cloud.dialects.ec2.filtering import matching
from anygpu.testing.cloud.dialects.ec2.goods import VENDOR
from anygpu.testing.cloud.dialects.ec2.wire import Fields
from anygpu.testing.cloud.vendor import MachineType

PRODUCT = "Linux/UNIX"


async def describe_regions(region: Region, fields: Fields) -> Fields:
    wanted = fields.get("RegionName", [])
    items = [
        {
            "regionName": name,
            "regionEndpoint": f"ec2.{name}.amazonaws.com",
            "optInStatus": "opt-in-not-required",
        }
        for name in VENDOR.regions
        if not wanted or name in wanted
    ]
    return {"regionInfo": matching(items, fields, lambda item: {"region-name": item["regionName"]})}


async def describe_availability_zones(region: Region, fields: Fields) -> Fields:
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
        "availabilityZoneInfo": matching(
            items, fields, lambda item: {name: str(item[key]) for name, key in facts.items()}
        )
    }


async def describe_instance_types(region: Region, fields: Fields) -> Fields:
    wanted = fields.get("InstanceType", [])
    for name in wanted:
        if VENDOR.type_named(name) is None:
            message = f"The following supplied instance types do not exist: [{name}]"
            raise Failure("InvalidInstanceType", message)
    kinds = [kind for kind in VENDOR.types if not wanted or kind.name in wanted]
    some, token = wire.page(matching(kinds, fields, _type_facts), fields, default=100)
    return {"instanceTypeSet": [_type(kind) for kind in some], "nextToken": token}


async def describe_instance_type_offerings(region: Region, fields: Fields) -> Fields:
    by_zone = fields.get("LocationType", "region") == "availability-zone"
    places = VENDOR.zones(region.name) if by_zone else (region.name,)
    items = [
        {
            "instanceType": kind.name,
            "locationType": "availability-zone" if by_zone else "region",
            "location": place,
        }
        for kind in VENDOR.types
        for place in places
    ]
    found = matching(
        items, fields, lambda item: {"instance-type": item["instanceType"], "location": item["location"]}
    )
    some, token = wire.page(found, fields)
    return {"instanceTypeOfferingSet": some, "nextToken": token}


async def describe_spot_price_history(region: Region, fields: Fields) -> Fields:
    """The price that stands now: one entry for each type and zone."""
    wanted = fields.get("InstanceType", [])
    only_zone = fields.get("AvailabilityZone", "")
    products = fields.get("ProductDescription", [PRODUCT])
    items = [
        _price(region, kind, zone)
        for kind in VENDOR.types
        for zone in VENDOR.zones(region.name)
        if (not wanted or kind.name in wanted) and only_zone in ("", zone) and _linux(products)
    ]
    facts = {
        "instance-type": "instanceType",
        "availability-zone": "availabilityZone",
        "product-description": "productDescription",
    }
    found = matching(items, fields, lambda item: {name: item[key] for name, key in facts.items()})
    some, token = wire.page(found, fields)
    return {"spotPriceHistorySet": some, "nextToken": token}


def _linux(products: list[str]) -> bool:
    return any(product.startswith(PRODUCT) for product in products)


def _price(region: Region, kind: MachineType, zone: str) -> dict[str, str]:
    price = region.cloud.price(kind, zone, spot=True)
    return {
        "instanceType": kind.name,
        "productDescription": PRODUCT,
        "spotPrice": f"{price / 1_000_000:.6f}",
        "timestamp": wire.timestamp(region.cloud.clock.now_ms()) or "",
        "availabilityZone": zone,
    }


def _type_facts(kind: MachineType) -> dict[str, str]:
    return {
        "instance-type": kind.name,
        "current-generation": "true",
        "bare-metal": "false",
        "processor-info.supported-architecture": "x86_64",
        "supported-usage-class": "spot",
        "vcpu-info.default-vcpus": str(kind.vcpus),
        "memory-info.size-in-mib": str(round(kind.memory_gib * 1024)),
        "hypervisor": "nitro",
    }


def _type(kind: MachineType) -> Fields:
    return {
        "instanceType": kind.name,
        "currentGeneration": True,
        "freeTierEligible": False,
        "supportedUsageClasses": ["on-demand", "spot"],
        "supportedRootDeviceTypes": ["ebs"],
        "supportedVirtualizationTypes": ["hvm"],
        "bareMetal": False,
        "hypervisor": "nitro",
        "processorInfo": {"supportedArchitectures": ["x86_64"], "manufacturer": "Intel"},
        "vCpuInfo": {
            "defaultVCpus": kind.vcpus,
            "defaultCores": max(1, kind.vcpus // 2),
            "defaultThreadsPerCore": 2,
        },
        "memoryInfo": {"sizeInMiB": round(kind.memory_gib * 1024)},
        "instanceStorageSupported": False,
        "gpuInfo": _gpus(kind),
    }


def _gpus(kind: MachineType) -> Fields | None:
    if not kind.gpu_count:
        return None
    each_mib = round(kind.gpu_memory_gib * 1024)
    card = {
        "name": kind.gpu_kind,
        "manufacturer": "NVIDIA",
        "count": kind.gpu_count,
        "memoryInfo": {"sizeInMiB": each_mib},
    }
    return {"gpus": [card], "totalGpuMemoryInMiB": each_mib * kind.gpu_count}
