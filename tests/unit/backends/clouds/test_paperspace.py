"""Paperspace's own shapes (docs.digitalocean.com/reference/paperspace/api-reference) and ours."""

from typing import Any

import pytest
from tests.unit.backends.clouds.fake_api import KEY, NAME, FarEnd, order

from anygpu.backends.clouds.paperspace import Options, PaperspaceProvider, shutdown_hours
from anygpu.backends.contract import Leftover
from anygpu.backends.vm.provider import CloudMachine, PowerState
from anygpu.errors import LaunchRefused, NoCapacity
from anygpu.events.offers import Billing
from anygpu.spec.sections import Resources

EVENT = {"id": "e1", "name": "create", "state": "new", "machineId": "psok2vd8"}
SCRIPTS, MACHINES = "GET /v1/startup-scripts", "GET /v1/machines"
MACHINE = CloudMachine(id="psok2vd8", name=NAME, power=PowerState.RUNNING, region="ny2")


def machine(**more: Any) -> dict[str, Any]:
    known = {"id": "psok2vd8", "name": NAME, "state": "ready", "machineType": "A4000", "region": "ny2"}
    return {
        **known,
        "publicIp": "198.51.100.4",
        "dtCreated": "2025-05-24T01:17:09Z",
        "dtDeleted": None,
        **more,
    }


def script(**more: Any) -> dict[str, Any]:
    return {"id": "s1", "name": NAME, "isRunOnce": True, "assignedMachineIds": ["psok2vd8"], **more}


def template(name: str, label: str, **types: bool) -> dict[str, Any]:
    listed = [{"machineTypeLabel": kind, "isAvailable": free} for kind, free in types.items()]
    return {"id": name, "name": name, "operatingSystemLabel": label, "availableMachineTypes": listed}


TEMPLATES = [
    template("t20", "Ubuntu 20.04", A4000=True, H100=False),
    template("t22", "Ubuntu 22.04", A4000=True),
    template("tcos", "CentOS 7 Server", A4000=True, V100=True),
]


def page(*items: Any, after: str = "") -> tuple[int, dict[str, Any]]:
    return 200, {"hasMore": bool(after), "nextPage": after or None, "items": list(items)}


def provider(answers: dict[str, Any], **told: Any) -> tuple[PaperspaceProvider, FarEnd]:
    far = FarEnd(answers)
    return PaperspaceProvider(Options(api_key="secret-of-tests", **told), far.transport), far


async def test_types_are_offered_where_a_template_has_them() -> None:
    paperspace, _ = provider({"GET /v1/os-templates": page(*TEMPLATES)}, regions=("ny2",))
    offers = {offer.name: offer for offer in await paperspace.offers(Resources())}
    a4000 = offers["A4000"]
    assert (a4000.gpu_kind, a4000.gpu_memory_gib, a4000.price_microusd_per_hour) == ("A4000", 16, 760_000)
    assert (a4000.free, a4000.billing, a4000.self_expires) == (None, Billing(step_s=3600), "max_duration")
    assert (a4000.max_run_s, a4000.disk_gib) == (604_800, 100)
    assert (offers["H100"].free, offers["H100"].wait_reason) == (0, "Paperspace has no H100 free")
    assert offers["V100"].free == 0, "CentOS is no place for our work"


async def test_a_launch_brings_its_key_with_a_startup_script_and_ends_by_itself() -> None:
    paperspace, far = provider(
        {
            SCRIPTS: page(),
            "POST /v1/startup-scripts": (200, script(assignedMachineIds=[])),
            "GET /v1/os-templates": page(*TEMPLATES),
            "POST /v1/machines": (
                200,
                {"event": EVENT, "data": machine(state="provisioning", publicIp=None)},
            ),
        }
    )
    wanted = order("A4000", "ny2", max_life_s=3601)
    made = await paperspace.create(wanted)
    sent = far.body("POST /v1/startup-scripts")
    assert (sent["name"], sent["isRunOnce"]) == (NAME, True)
    assert KEY in sent["script"]
    assert "shutdown -h +60" in sent["script"]
    assert far.body("POST /v1/machines") == paperspace.native_request(wanted, template="t22", script="s1")
    assert far.body("POST /v1/machines") == {
        "name": NAME,
        "machineType": "A4000",
        "templateId": "t22",
        "region": "ny2",
        "diskSize": 100,
        "publicIpType": "dynamic",
        "startupScriptId": "s1",
        "startOnCreate": True,
        "emailPassword": False,
        "autoSnapshotEnabled": False,
        "takeInitialSnapshot": False,
        "autoShutdownEnabled": True,
        "autoShutdownForce": True,
        "autoShutdownTimeout": 2,
    }
    assert (made.id, made.power, made.address) == ("psok2vd8", PowerState.STARTING, "")


async def test_a_launch_that_is_tried_again_uses_the_script_that_is_there() -> None:
    paperspace, far = provider(
        {
            SCRIPTS: page(script(name=NAME + "0", id="s0"), script()),
            "POST /v1/machines": (200, {"event": EVENT, "data": machine(state="provisioning")}),
        },
        template="mine",
        network="n1",
    )
    await paperspace.create(order("A4000", "ny2"))
    sent = far.body("POST /v1/machines")
    assert (sent["startupScriptId"], sent["templateId"], sent["networkId"]) == ("s1", "mine", "n1")
    assert far.lines() == [SCRIPTS, "POST /v1/machines"]


@pytest.mark.parametrize(
    ("life_s", "said"), [(1, 1), (3600, 1), (3601, 2), (25_200 + 3600, 8), (10_000_000, 168), (None, 168)]
)
def test_a_life_is_whole_hours_of_at_most_a_week(life_s: float | None, said: int) -> None:
    assert shutdown_hours(life_s) == said


async def test_a_type_without_a_template_names_the_option_to_set() -> None:
    paperspace, _ = provider({SCRIPTS: page(script()), "GET /v1/os-templates": page(*TEMPLATES)})
    with pytest.raises(LaunchRefused, match="Set the option `template`"):
        await paperspace.create(order("H100", "ny2"))


async def test_no_capacity_is_told_apart() -> None:
    words = {"code": "INTERNAL_SERVER_ERROR", "message": "We are out of capacity for A4000 in NY2"}
    paperspace, _ = provider({SCRIPTS: page(script()), "POST /v1/machines": (500, words)}, template="mine")
    with pytest.raises(NoCapacity, match="out of capacity for A4000"):
        await paperspace.create(order("A4000", "ny2"))


async def test_every_page_is_listed_and_machines_of_others_are_not() -> None:
    paperspace, far = provider(
        {MACHINES: [page(machine(), machine(name="desk"), after="c1"), page(machine(id="b", state="off"))]},
        ssh_port=2222,
    )
    first, second = await paperspace.machines()
    assert (first.power, first.address, first.port) == (PowerState.RUNNING, "198.51.100.4", 2222)
    assert (first.started_at_ms, second.power) == (1748049429000, PowerState.STOPPED)
    assert far.query(MACHINES) == {"limit": "120", "after": "c1"}


async def test_a_deleted_machine_has_ended_by_the_providers_clock() -> None:
    paperspace, _ = provider({MACHINES: page(machine(state="off", dtDeleted="2025-05-24T02:17:09Z"))})
    (ended,) = await paperspace.machines()
    assert (ended.power, ended.ended_at_ms) == (PowerState.ENDED, 1748053029000)


async def test_destroying_deletes_the_machine_and_its_script() -> None:
    paperspace, far = provider(
        {
            "DELETE /v1/machines/psok2vd8": (404, {"code": "NOT_FOUND", "message": "Not found"}),
            SCRIPTS: page(script()),
            "DELETE /v1/startup-scripts/s1": (200, script()),
        }
    )
    await paperspace.destroy(MACHINE)
    assert far.lines()[-1] == "DELETE /v1/startup-scripts/s1"
    assert far.query(SCRIPTS)["name"] == NAME


async def test_a_script_another_machine_boots_with_is_left() -> None:
    paperspace, far = provider(
        {
            "DELETE /v1/machines/psok2vd8": (200, {}),
            SCRIPTS: page(script(assignedMachineIds=["psok2vd8", "brother"])),
        }
    )
    await paperspace.destroy(MACHINE)
    assert far.lines() == ["DELETE /v1/machines/psok2vd8", SCRIPTS]


async def test_leftovers_are_scripts_that_carry_our_name() -> None:
    paperspace, _ = provider({SCRIPTS: page(script(name="mine", id="s0"), script())})
    assert await paperspace.leftovers() == [Leftover(kind="script", id="s1", name=NAME)]


@pytest.mark.parametrize(
    ("answer", "valid", "why"),
    [
        ((200, {"user": {"email": "a@b.test"}, "team": {}}), True, "a@b.test"),
        ((200, None), False, "PAPERSPACE_API_KEY"),
        ((200, {"user": None}), False, "PAPERSPACE_API_KEY"),
        ((401, {"code": "UNAUTHORIZED", "message": "bad key"}), False, "bad key"),
    ],
)
async def test_a_check_says_who_we_are_or_why_not(answer: Any, valid: bool, why: str) -> None:
    paperspace, _ = provider({"GET /v1/auth/session": answer})
    account = await paperspace.check()
    assert account.valid is valid
    assert why in account.message
