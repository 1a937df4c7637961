"""Backends follow their profiles, on a real database and with a kind that another package brings."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.acceptance.server.plugin_backend import install

from anygpu.backends import options as reading
from anygpu.backends import registry
from anygpu.backends.contract import SupportsAccountCheck
from anygpu.backends.health import RequestKind
from anygpu.backends.manager import BackendEntry, BackendManager, BackendSource, SettingsBackend
from anygpu.backends.registry import BackendContext
from anygpu.errors import BackendNotOpen, Conflict, Forbidden, InvalidSpec, NotFound
from anygpu.plan.catalog import CatalogPolicy, terms
from anygpu.plan.offers.candidates import BackendTerms
from anygpu.server.process.clock import LoopWake
from anygpu.settings import InvalidSettings, load
from anygpu.spec.sections import Resources
from anygpu.store.scope import Scope
from anygpu.store.sql.engine.inline import InlineDatabase
from anygpu.store.sql.journal import SqlJournal
from anygpu.store.vault.key_file import create_private_file, new_vault_key
from anygpu.store.vault.profiles import Profiles
from anygpu.store.vault.rotation import RotationResult, rotate_keys
from anygpu.store.vault.vault import Vault
from anygpu.tenancy.auth import Caller, Role
from anygpu.tenancy.backend_profiles import BackendProfiles, ProfileRequest
from anygpu.testing.contracts.journal import append, submit
from anygpu.testing.samples.jobs import LAB, STRANGER, attempt_training
from anygpu.wiring.backends import open_backends
from anygpu.wiring.control import terms_by_backend


class Rig:
    """One server's backends, and what they told."""

    def __init__(
        self, database: InlineDatabase, folder: Path, tables: list[SettingsBackend] | None = None
    ) -> None:
        self.journal = SqlJournal(database)
        create_private_file(folder / "secrets.key", new_vault_key())
        self.profiles = Profiles(database, folder / "secrets.key")
        self.reports: list[str] = []
        self.opened = 0
        around = BackendContext(
            secret=b"s", agent_target=("127.0.0.1", 9), pins=folder / "pins", on_change=lambda name: None
        )
        self.backends = BackendManager(
            [], tables or [], self.profiles, around, on_open=self._count, report=self._heard, now_ms=lambda: 5
        )
        vault = Vault(folder / "secrets.key")
        self.service = BackendProfiles(
            self.profiles,
            self.backends,
            self.journal.live,
            lambda: 5,
            lambda new_key: rotate_keys(database, vault, new_key=new_key),
        )

    def _count(self) -> None:
        self.opened += 1

    def _heard(self, message: str, error: Exception) -> None:
        self.reports.append(f"{message}: {error}")

    async def add(self, caller: Caller, name: str = "plug", **changed: Any) -> BackendEntry:
        wanted = {"kind": "plugged", "options": {}, "credentials": {"api_key": "right"}, **changed}
        return await self.service.add(caller, ProfileRequest(name=name, **wanted))


@pytest.fixture
async def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Rig]]:
    (tmp_path / "plugin").mkdir()
    monkeypatch.syspath_prepend(install(tmp_path / "plugin"))
    database, made = InlineDatabase(), []

    def rig(**more: Any) -> Rig:
        made.append(Rig(database, tmp_path, **more))
        return made[-1]

    yield rig
    for each in made:
        await each.backends.close()
    await database.close()


def caller(scope: Scope = LAB, role: Role = Role.ADMIN) -> Caller:
    return Caller(scope=scope, role=role, token_id="t")


async def test_what_is_added_can_be_used_at_once_and_what_is_removed_no_more(
    make: Callable[..., Rig],
) -> None:
    rig = make()
    entry = await rig.add(caller())
    assert (entry.is_open, entry.source, rig.opened) == (True, BackendSource.PROFILE, 1)
    assert {offer.backend for offer in await rig.backends["plug"].offers(Resources())} == {"plug"}
    assert isinstance(rig.backends["plug"], SupportsAccountCheck)
    assert not await rig.service.remove(caller(), "plug")
    assert dict(rig.backends) == {}
    with pytest.raises(NotFound):
        await rig.service.remove(caller(), "plug")


async def test_a_changed_configuration_begins_without_the_errors_of_the_old_one(
    make: Callable[..., Rig],
) -> None:
    rig = make()
    old = (await rig.add(caller())).backend
    rig.backends.record(old, RequestKind.OFFERS, "the key is wrong")
    (entry,) = rig.service.entries(caller())
    assert [(each.message, each.at_ms) for each in entry.health.problems] == [("the key is wrong", 5)]
    changed = await rig.add(caller(), replace=True, options={"cpus": 3})
    rig.backends.record(old, RequestKind.OFFERS, "a late answer")
    assert changed.health.problems == []


async def test_the_terms_of_a_backends_cloud_hold_for_it(make: Callable[..., Rig]) -> None:
    given = reading.parse_options(registry.find_kind("ec2").options, {}, {})
    rig = make(
        tables=[SettingsBackend(name="virginia", organisation=LAB.organisation, kind="ec2", parsed=given)]
    )
    await rig.add(caller())
    policy = CatalogPolicy.from_settings(credits=["ec2=$300"])
    terms_of = terms_by_backend(policy, rig.backends)
    assert terms_of("virginia") == BackendTerms(
        credit_microusd=300_000_000, egress_microusd_per_gib=terms()["ec2"].egress_microusd_per_gib or -1
    )
    assert (terms_of("plug"), terms_of("removed")) == (BackendTerms(), BackendTerms())


async def test_what_another_server_changes_is_changed_here_too(make: Callable[..., Rig]) -> None:
    here, there = make(), make()
    await there.add(caller())
    assert "plug" not in here.backends
    await here.backends.refresh()
    first = await opened(here)
    await there.add(caller(), options={"cpus": 7}, replace=True)
    await here.backends.refresh()
    second = await opened(here)
    assert second.backend is not first.backend
    assert second.options == {"cpus": 7}
    await here.backends.refresh()
    assert here.backends["plug"] is second.backend  # what did not change is not opened again
    await there.service.remove(caller(), "plug")
    await here.backends.refresh()
    assert "plug" not in here.backends


async def opened(rig: Rig, name: str = "plug") -> BackendEntry:
    entry = rig.backends.entry(name)
    assert entry is not None
    await rig.backends.wait_opened(entry)
    return entry


async def test_one_that_cannot_be_opened_says_why_and_is_tried_again(
    make: Callable[..., Rig], tmp_path: Path
) -> None:
    rig = make()
    entry = await rig.add(caller(role=Role.OPERATOR), options={"endpoint": "nowhere"})
    assert not entry.is_open
    assert "nothing at 'nowhere'" in entry.reason
    with pytest.raises(BackendNotOpen, match="nothing at 'nowhere'"):
        await rig.backends["plug"].offers(Resources())
    await rig.backends.refresh()
    await opened(rig)
    assert len(rig.reports) == 1  # the same reason is told once
    checked = await rig.service.check(caller(), "plug")
    assert (checked.account.valid, "nowhere" in checked.account.message) == (False, True)


async def test_without_its_key_the_vault_is_closed_and_with_it_the_backend_opens(
    make: Callable[..., Rig], tmp_path: Path
) -> None:
    await make().add(caller())
    key_file = tmp_path / "secrets.key"
    key = key_file.read_bytes()
    key_file.unlink()
    restarted = make()
    await restarted.backends.refresh()
    assert "secrets.key" in (await opened(restarted)).reason
    key_file.write_bytes(key)
    await restarted.backends.refresh()
    assert (await opened(restarted)).is_open


async def test_a_backend_is_seen_by_its_own_organisation_alone(make: Callable[..., Rig]) -> None:
    rig = make()
    await rig.add(caller())
    assert rig.backends.visible("plug", LAB.organisation)
    assert not rig.backends.visible("plug", STRANGER.organisation)
    assert not rig.backends.visible("none", LAB.organisation)
    assert not rig.service.entries(caller(STRANGER))
    for attempt in (
        rig.service.check(caller(STRANGER), "plug"),
        rig.service.remove(caller(STRANGER), "plug"),
    ):
        with pytest.raises(NotFound):
            await attempt
    with pytest.raises(Conflict, match="another name"):
        await rig.add(caller(STRANGER), replace=True)


async def test_a_table_of_the_settings_file_is_a_backend_that_only_the_file_removes(
    make: Callable[..., Rig],
) -> None:
    given = reading.parse_options(registry.find_kind("plugged").options, {"cpus": 1}, {"api_key": "right"})
    rig = make(
        tables=[SettingsBackend(name="lab", organisation=LAB.organisation, kind="plugged", parsed=given)]
    )
    await rig.backends.refresh()
    entry = await opened(rig, "lab")
    assert (entry.is_open, entry.source, entry.credential_names) == (
        True,
        BackendSource.SETTINGS,
        ("api_key",),
    )
    with pytest.raises(Conflict, match="settings file"):
        await rig.service.remove(caller(), "lab")
    with pytest.raises(Conflict, match="settings file"):
        await rig.add(caller(), "lab")


@pytest.mark.parametrize("name", ["", "Up", "a b", "-x", "x" * 64, "local", "cheapest", "kinds", "../x"])
async def test_a_wrong_name_is_refused(make: Callable[..., Rig], name: str) -> None:
    with pytest.raises(InvalidSpec):
        await make().add(caller(), name)


async def test_only_administrators_change_and_only_the_operator_lends_the_environment(
    make: Callable[..., Rig],
) -> None:
    rig = make()
    with pytest.raises(Forbidden, match="admin"):
        await rig.add(caller(role=Role.MEMBER))
    with pytest.raises(Forbidden, match="only the operator of the server may do"):
        await rig.add(caller(), credentials={})
    assert (await rig.add(caller(role=Role.OPERATOR), credentials={})).is_open
    with pytest.raises(Forbidden, match="only the operator of the server may do"):
        await rig.add(caller(), credentials={}, options={"cpus": 3}, replace=True)
    with pytest.raises(Forbidden, match="admin"):
        await rig.service.remove(caller(role=Role.MEMBER), "plug")


async def test_only_the_operator_says_whom_the_server_calls(make: Callable[..., Rig]) -> None:
    rig, proxied = make(), {"endpoint": "http://127.0.0.1:9"}
    with pytest.raises(Forbidden, match="'endpoint'"):
        await rig.add(caller(), options=proxied)
    await rig.add(caller(role=Role.OPERATOR), options=proxied)
    await rig.add(caller(), options={**proxied, "cpus": 3}, credentials={}, replace=True)
    for changed in ({}, {"endpoint": "http://127.0.0.2:9"}):
        with pytest.raises(Forbidden, match="'endpoint'"):
            await rig.add(caller(), options=changed, replace=True)


async def test_a_change_keeps_the_credentials_it_does_not_name(make: Callable[..., Rig]) -> None:
    rig = make()
    await rig.add(caller(), credentials={"api_key": "wrong"})
    assert not (await rig.service.check(caller(), "plug")).account.valid
    await rig.add(caller(), credentials={"api_key": "right"}, replace=True)
    await rig.add(caller(), options={"cpus": 3}, credentials={}, replace=True)
    checked = await rig.service.check(caller(), "plug")
    assert (checked.account.valid, checked.account.balance_microusd) == (True, 12_340_000)
    await rig.add(caller(role=Role.OPERATOR), credentials={"api_key": None}, replace=True)
    assert rig.profiles.credentials(await rig.profiles.get(LAB, "plug")) == {}


async def test_only_the_operator_changes_the_key(make: Callable[..., Rig]) -> None:
    rig = make()
    backend = (await rig.add(caller())).backend
    with pytest.raises(Forbidden):
        await rig.service.rotate(caller(), new_key=True)
    assert await rig.service.rotate(caller(role=Role.OPERATOR), new_key=True) == RotationResult(reencrypted=1)
    await rig.backends.refresh()
    assert rig.backends["plug"] is backend


async def test_a_check_counts_offers_and_names_the_cheapest_gpu(make: Callable[..., Rig]) -> None:
    rig = make()
    await rig.add(caller())
    checked = await rig.service.check(caller(role=Role.MEMBER), "plug")
    assert checked.cheapest_gpu is not None
    assert (checked.cheapest_gpu.name, len(checked.offers)) == ("big", 3)
    assert [offer.refused for offer in checked.refused_offers] == ["dearer than allowed"]


async def test_a_backend_with_machines_stays_until_it_is_forced(make: Callable[..., Rig]) -> None:
    rig = make()
    await rig.add(caller())
    view = await submit(rig.journal, 1)
    await append(rig.journal, view.id, *attempt_training(backend="plug"))
    with pytest.raises(Conflict, match=rf"1 job: {view.name or view.id}") as caught:
        await rig.service.remove(caller(), "plug")
    assert caught.value.details["jobs"] == [view.id]
    assert [left.id for left in await rig.service.remove(caller(), "plug", force=True)] == [view.id]
    with pytest.raises(Conflict, match="still runs jobs"):  # its machines would be looked for elsewhere
        await rig.add(caller(STRANGER))
    assert (await rig.add(caller())).is_open


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("kind = 'plugged'\ncpu = 1", "settings backends.lab.cpu: unknown option; did you mean 'cpus'"),
        (
            "kind = 'pluged'",
            "settings backends.lab.kind: is not a kind of backend; did you mean 'plugged'",
        ),
        ("kind = 'broken'", "needs the Python package no_such_module"),
        ("kind = 'plugged'\ncpus = 0", "settings backends.lab.cpus: input should be greater"),
        ("kind = 'plugged'\napi_key = 5", "settings credentials.api_key: is empty or not a string"),
    ],
)
async def test_a_wrong_table_of_the_settings_file_is_named(
    make: Callable[..., Rig], tmp_path: Path, table: str, reason: str
) -> None:
    (tmp_path / "config.toml").write_text(f"[backends.lab]\n{table}\n")
    with pytest.raises(InvalidSettings, match=reason):
        await started(make().profiles, tmp_path)


async def test_tables_of_the_file_and_of_the_environment_are_opened(
    make: Callable[..., Rig], tmp_path: Path
) -> None:
    (tmp_path / "config.toml").write_text(
        "[backends.lab]\nkind = 'plugged'\n[backends.all]\nkind = 'plugged'\norganisation = '*'\n"
    )
    environ = {"ANYGPU_BACKENDS__LAB__CPUS": "3", "ANYGPU_BACKENDS__LAB__API_KEY": "right"}
    backends = await started(make().profiles, tmp_path, environ)
    lab = backends.entry("lab")
    assert lab is not None
    assert (lab.options, lab.credential_names) == ({"cpus": 3}, ("api_key",))
    assert backends.visible("lab", LAB.organisation)
    assert not backends.visible("lab", STRANGER.organisation)
    assert backends.visible("all", STRANGER.organisation)
    await backends.close()


async def started(profiles: Profiles, folder: Path, environ: dict[str, str] | None = None) -> BackendManager:
    given = {"ANYGPU_LOCAL__ENABLED": "no", "ANYGPU_STATE": str(folder), **(environ or {})}
    async with AsyncExitStack() as stack:
        backends = await open_backends(
            load(folder / "config.toml", environ=given),
            profiles,
            secret=b"s",
            agent_url="http://127.0.0.1:9",
            organisation=LAB.organisation,
            wake=LoopWake(),
            now_ms=lambda: 5,
            stack=stack,
        )
        stack.pop_all()
        return backends
