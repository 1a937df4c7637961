"""The EC2 provider: its options, and methods that create, list and terminate instances."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic import Field, SecretStr

from anygpu.backends.clouds.ec2 import translate
from anygpu.backends.clouds.ec2.account import (
    CostExplorerMeter,
    check_account,
    list_leftovers,
    remove_leftover,
)
from anygpu.backends.clouds.ec2.api import AwsClient
from anygpu.backends.clouds.ec2.offers import (
    CapacityReservation,
    RegionOffers,
    at_marginal_price,
    reservation_offer,
)
from anygpu.backends.clouds.ec2.region import RegionOptions, RegionSetups
from anygpu.backends.contract import AccountStatus, Leftover, NativeRequest
from anygpu.backends.vm.options import VmOptions
from anygpu.backends.vm.provider import (
    CloudMachine,
    CredentialsRefused,
    MachineOrder,
    PowerState,
    Provider,
    ResourceNotFound,
)
from anygpu.errors import BackendUnavailable, LaunchRefused
from anygpu.events.offers import Offer
from anygpu.spec.sections import Resources

NAME_TAG_FILTERS = [{"Name": "tag-key", "Values": [translate.NAME_TAG]}]
PAGE_SIZE = 1000


class Ec2Options(VmOptions):
    """Options of an EC2 backend.

    Without an access key or profile, the AWS credentials of the server are used: environment variables, the
    default profile, or the role of the machine.
    """

    profile: str = Field("", description="profile in ~/.aws; empty: credentials of the environment or role")
    access_key_id: str = Field("", description="access key id; empty: the server's own AWS credentials")
    secret_access_key: SecretStr | None = Field(
        None, description="secret access key that belongs to `access_key_id`"
    )
    session_token: SecretStr | None = Field(None, description="session token, for temporary access keys")
    image: str = Field(
        "",
        description="AMI id, or the name of one of your AMIs (may contain *); empty: AWS's Deep Learning Base, "
        "Ubuntu 22.04",
    )
    subnet: str = Field("", description="subnet of the machines; empty: a default subnet of the region")
    security_group: str = Field("", description="security group; empty: one named anygpu-ssh is created")
    ssh_from: str = Field(
        "0.0.0.0/0", description="CIDR range from which the created security group allows SSH"
    )
    public_address: bool = Field(True, description="use the public address of machines, not the private one")
    volume_gib: int = Field(
        100, ge=8, le=16384, description="size of a machine's gp3 disk, which is deleted with the machine"
    )
    instance_types: tuple[str, ...] = Field(
        (), description="instance types to rent, such as g5.*; empty: every known GPU type"
    )
    spot: bool = Field(True, description="offer spot machines too")
    capacity_reservations: tuple[str, ...] = Field(
        (), description="ids of paid capacity reservations and Capacity Blocks to use"
    )
    reserved_instances: bool = Field(
        False, description="for types with unused Reserved Instances, use their price per hour of use"
    )
    meter: str = Field(
        "", pattern="cost-explorer|", description="'cost-explorer': compare costs with AWS Cost Explorer"
    )
    meter_after_h: float = Field(
        24, ge=0, description="hours after a machine's end until Cost Explorer is asked, once, for $0.01"
    )


class Ec2Provider:
    """Creates, lists and destroys EC2 instances in the regions of one backend."""

    self_expires = "halt"
    idempotent = True
    listing_lag_s = (
        60.0  # "eventual consistency", EC2 API developer guide: a new instance may be missing at first
    )
    notices = "aws"
    connects_nodes = True  # the security group lets the machines reach each other

    def __init__(self, options: Ec2Options, aws: AwsClient, regions: tuple[str, ...]) -> None:
        self._options = options
        self._aws = aws
        self._regions = regions
        self._region_setups = RegionSetups(aws, _region_options(options))
        self._ended_at: dict[str, int] = {}
        self.user = options.user or "ubuntu"

    async def offers(self, need: Resources) -> Sequence[Offer]:
        by_region = await asyncio.gather(*(self._region_offers(region, need) for region in self._regions))
        return [offer for offers in by_region for offer in offers]

    async def create(self, order: MachineOrder) -> CloudMachine:
        region = order.offer.region
        setup = await self._region_setup(order)
        try:
            answer = await self._aws.call(region, "run_instances", **translate.native_request(order, setup))
        except ResourceNotFound:
            self._region_setups.forget(
                region
            )  # the image or the group was deleted: search again at the next try
            raise
        except LaunchRefused as error:
            if error.details.get("vendor_code") != "IdempotentParameterMismatch":
                raise
            return await self._find_created(order)
        return self._machine(answer["Instances"][0], region)

    async def native_request(self, order: MachineOrder) -> dict[str, Any]:
        """Return the exact RunInstances request that `create` sends. Creates nothing."""
        return translate.native_request(order, await self._region_setup(order, preview=True))

    async def native_requests(self, order: MachineOrder) -> Sequence[NativeRequest]:
        title = f"EC2 RunInstances in {order.offer.region}"
        return [NativeRequest.of_json(title, await self.native_request(order))]

    async def machines(self) -> Sequence[CloudMachine]:
        by_region = await asyncio.gather(
            *(self._list_machines(region, NAME_TAG_FILTERS) for region in self._regions)
        )
        return [machine for machines in by_region for machine in machines]

    async def destroy(self, machine: CloudMachine) -> None:
        try:
            await self._aws.call(machine.region, "terminate_instances", InstanceIds=[machine.id])
        except ResourceNotFound:
            return

    async def check(self) -> AccountStatus:
        return await check_account(self._aws, self._regions)

    async def leftovers(self) -> Sequence[Leftover]:
        by_region = await asyncio.gather(*(list_leftovers(self._aws, region) for region in self._regions))
        return [leftover for leftovers in by_region for leftover in leftovers]

    async def remove(self, leftover: Leftover) -> None:
        await remove_leftover(self._aws, leftover)

    async def host_keys(self, machine: CloudMachine) -> Sequence[str]:
        answer = await self._aws.read(
            machine.region, "get_console_output", InstanceId=machine.id, Latest=True
        )
        keys = translate.host_keys(answer.get("Output", ""))
        if not keys:
            raise BackendUnavailable(
                f"the EC2 console output of the machine {machine.id} does not contain its SSH host keys yet; the "
                "login is tried again"
            )
        return keys

    async def close(self) -> None:
        await self._aws.close()

    # -- offers -----------------------------------------------------------------------------------------------

    async def _region_offers(self, region: str, need: Resources) -> list[Offer]:
        region_offers = RegionOffers(self._aws, region, disk_gib=self._options.volume_gib)
        machines = await region_offers.instance_types(need, self._options.instance_types)
        on_demand = [*region_offers.on_demand(machines)]
        if self._options.reserved_instances:
            unused = await region_offers.unused_commitments()
            on_demand = [at_marginal_price(offer, unused) for offer in on_demand]
        spot = await region_offers.spot(machines) if self._options.spot else []
        offers = [*await self._reserved_offers(region_offers, machines), *on_demand, *spot]
        # AWS's Deep Learning images include docker and NVIDIA's toolkit. Other images need the option `containers`.
        return [replace(offer, containers=not self._options.image) for offer in offers]

    async def _reserved_offers(self, region_offers: RegionOffers, machines: Sequence[Offer]) -> list[Offer]:
        now, by_name = datetime.now(UTC), {machine.name: machine for machine in machines}
        reservations = await self._reservations(region_offers)
        return [reservation_offer(by_name[r.type], r, now) for r in reservations if r.type in by_name]

    async def _reservations(self, region_offers: RegionOffers) -> list[CapacityReservation]:
        ids = self._options.capacity_reservations
        return await region_offers.reserved_capacity(ids) if ids else []

    # -- launching --------------------------------------------------------------------------------------------

    async def _region_setup(self, order: MachineOrder, *, preview: bool = False) -> translate.RegionSetup:
        offer = order.offer
        find = self._region_setups.preview if preview else self._region_setups.get
        setup = await find(offer.region, gpu=offer.gpu_count > 0)
        if offer.price_microusd_per_hour or offer.interruptible:
            return setup
        region_offers = RegionOffers(self._aws, offer.region, disk_gib=setup.volume_gib)
        for paid in await self._reservations(region_offers):
            if (paid.type, paid.zone) == (offer.name, offer.zone):
                return replace(setup, reservation=paid.id, block=paid.block)
        return setup

    async def _find_created(self, order: MachineOrder) -> CloudMachine:
        """Return the machine that an earlier request for the same order created.

        Called when EC2 refuses the client token because an earlier request with this token had other
        parameters.
        """
        named = [{"Name": f"tag:{translate.NAME_TAG}", "Values": [order.name]}]
        made = await self._list_machines(order.offer.region, named)
        if not made:
            raise BackendUnavailable(
                f"EC2 has created the machine {order.name}, but does not list it yet; the request is tried again"
            )
        return made[0]

    # -- listing ----------------------------------------------------------------------------------------------

    async def _list_machines(self, region: str, filters: list[dict[str, Any]]) -> list[CloudMachine]:
        groups = self._aws.pages(
            region, "describe_instances", "Reservations", Filters=filters, MaxResults=PAGE_SIZE
        )
        instances = [i async for group in groups for i in group["Instances"]]
        machines = [self._machine(instance, region) for instance in instances]
        await self._find_end_times(region, instances, machines)
        return [self._with_end_time(machine) for machine in machines]

    def _machine(self, instance: dict[str, Any], region: str) -> CloudMachine:
        return translate.machine_of(instance, region, public_address=self._options.public_address)

    def _with_end_time(self, machine: CloudMachine) -> CloudMachine:
        ended = machine.ended_at_ms or self._ended_at.get(machine.id)
        return replace(machine, ended_at_ms=ended) if machine.power is PowerState.ENDED else machine

    async def _find_end_times(
        self, region: str, instances: Sequence[dict[str, Any]], machines: Sequence[CloudMachine]
    ) -> None:
        """Store the end times of preempted instances that do not show an end time themselves.

        The end times are read from the instances' spot requests.
        """
        silent = {m.id for m in machines if m.power is PowerState.ENDED and m.preempted and not m.ended_at_ms}
        params = {
            i["SpotInstanceRequestId"]: i["InstanceId"]
            for i in instances
            if i["InstanceId"] in silent - self._ended_at.keys() and i.get("SpotInstanceRequestId")
        }
        if params:
            answer = await self._aws.read(
                region, "describe_spot_instance_requests", SpotInstanceRequestIds=[*params]
            )
            for request in answer["SpotInstanceRequests"]:
                updated = request["Status"]["UpdateTime"]
                self._ended_at[params[request["SpotInstanceRequestId"]]] = round(updated.timestamp() * 1000)


class MeteredEc2Provider(Ec2Provider):
    """An EC2 provider that also reads metered costs from Cost Explorer."""

    def __init__(self, options: Ec2Options, aws: AwsClient, regions: tuple[str, ...]) -> None:
        super().__init__(options, aws, regions)
        delay = timedelta(hours=options.meter_after_h)
        self._meter = CostExplorerMeter(aws, delay_s=delay.total_seconds())

    async def metered_microusd(self, machine: CloudMachine) -> int | None:
        return await self._meter.metered_microusd(machine, datetime.now(UTC))


async def connect(options: Ec2Options) -> Provider:
    """Create the provider without calling AWS. Wrong credentials or regions cause errors in later calls."""
    aws = AwsClient(endpoint=options.endpoint, profile=options.profile, keys=_keys(options))
    regions = options.regions or (await aws.default_region(),)
    return MeteredEc2Provider(options, aws, regions) if options.meter else Ec2Provider(options, aws, regions)


def ambient(options: Ec2Options) -> bool:
    """Return whether the backend uses the AWS credentials of the server's environment."""
    return _keys(options) is None


def _keys(options: Ec2Options) -> tuple[str, str, str] | None:
    secret, token = options.secret_access_key, options.session_token
    if not options.access_key_id and secret is None:
        return None
    if not options.access_key_id or secret is None:  # never complete one half from the environment
        raise CredentialsRefused(
            "`access_key_id` and `secret_access_key` must be set together, and one is missing",
            hint="Set both, or neither to use the AWS credentials of the environment.",
        )
    return options.access_key_id, secret.get_secret_value(), token.get_secret_value() if token else ""


def _region_options(options: Ec2Options) -> RegionOptions:
    return RegionOptions(
        image=options.image,
        subnet=options.subnet,
        security_group=options.security_group,
        volume_gib=options.volume_gib,
        public_address=options.public_address,
        ssh_port=options.ssh_port,
        ssh_from=options.ssh_from,
    )
