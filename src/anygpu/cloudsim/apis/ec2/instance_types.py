"""The instance types of the simulated EC2. Prices are those of AWS on 2026-08-22 in us-west-2."""

from anygpu.cloudsim.vendor import SimBillingRule, SimMachineType, SimVendor

ACCOUNT = "123456789012"  # the account number of AWS's own examples
ACCESS_KEY_ID = "AKIASIMULATED0000000"
SECRET_ACCESS_KEY = "simulated"  # noqa: S105 - valid only in the simulator


def _usd(dollars: float) -> int:
    return round(dollars * 1_000_000)


def _gpu(
    name: str,
    machine_type: str,
    count: int,
    each_gib: float,
    vcpus: int,
    memory_gib: float,
    usd: float,
    spot: float,
) -> SimMachineType:
    return SimMachineType(
        name=name,
        gpu_kind=machine_type,
        gpu_count=count,
        gpu_memory_gib=each_gib,
        vcpus=vcpus,
        memory_gib=memory_gib,
        price_microusd_per_hour=_usd(usd),
        spot_microusd_per_hour=_usd(spot),
    )


def _cpu(name: str, vcpus: int, memory_gib: float, usd: float, spot: float) -> SimMachineType:
    return _gpu(name, "", 0, 0, vcpus, memory_gib, usd, spot)


VENDOR = SimVendor(
    name="ec2",
    regions={
        "us-east-1": ("us-east-1a", "us-east-1b", "us-east-1c"),
        "us-west-2": ("us-west-2a", "us-west-2b", "us-west-2c"),
        "eu-central-1": ("eu-central-1a", "eu-central-1b", "eu-central-1c"),
    },
    types=(
        _cpu("t3.medium", 2, 4, 0.0416, 0.0149),
        _cpu("t3.large", 2, 8, 0.0832, 0.0299),
        _cpu("c7i.large", 2, 4, 0.08925, 0.0343),
        _cpu("c7i.xlarge", 4, 8, 0.1785, 0.0695),
        _cpu("m7i.xlarge", 4, 16, 0.2016, 0.0801),
        _gpu("g4dn.xlarge", "T4", 1, 16, 4, 16, 0.526, 0.2289),
        _gpu("g4dn.12xlarge", "T4", 4, 16, 48, 192, 3.912, 1.4453),
        _gpu("g5.xlarge", "A10G", 1, 24, 4, 16, 1.006, 0.4932),
        _gpu("g5.2xlarge", "A10G", 1, 24, 8, 32, 1.212, 0.5396),
        _gpu("g5.12xlarge", "A10G", 4, 24, 48, 192, 5.672, 3.0711),
        _gpu("g6.xlarge", "L4", 1, 24, 4, 16, 0.8048, 0.5853),
        _gpu("g6e.xlarge", "L40S", 1, 48, 4, 32, 1.861, 1.4302),
        _gpu("p4d.24xlarge", "A100", 8, 40, 96, 1152, 21.95764, 16.4434),
        _gpu("p5.4xlarge", "H100", 1, 80, 16, 256, 6.88, 2.5553),
        _gpu("p5.48xlarge", "H100", 8, 80, 192, 2048, 55.04, 20.3853),
    ),
    billing_rule=SimBillingRule(
        step_s=1, minimum_s=60
    ),  # Linux, aws.amazon.com/ec2/pricing: by the second, at least a minute
    metadata_format="aws",
    on_halt="stop",  # unless InstanceInitiatedShutdownBehavior is `terminate`
    credentials={ACCESS_KEY_ID: SECRET_ACCESS_KEY, "test": "test"},
    address_microusd_per_hour=5_000,
)
