"""Kinds are found by name, and nothing of a vendor is imported before one is used."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.acceptance.server.plugin_backend import install

from anygpu.backends import registry
from anygpu.errors import AnygpuError, InvalidSpec, KindUnusable

VENDORS = ("boto3", "botocore", "httpx", "asyncssh", "anygpu.backends.vm.backend", "anygpu.backends.ssh.link")


def test_every_module_under_clouds_is_a_kind() -> None:
    names = [kind.name for kind in registry.usable_kinds()]
    assert {"lambda", "canopywave", "paperspace", "runpod"} <= set(names)
    assert "http" not in names
    assert names == sorted(names)
    assert all(kind.about for kind in registry.usable_kinds())


def test_a_wrong_kind_names_the_nearest_valid_one() -> None:
    with pytest.raises(InvalidSpec, match="did you mean 'lambda'"):
        registry.find_kind("lamda")
    with pytest.raises(InvalidSpec, match="there are: "):
        registry.find_kind("http")


def test_another_package_adds_a_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(install(tmp_path))
    kind = registry.find_kind("plugged")
    assert kind.about == "Plugged in"
    assert "api_key" in kind.options.model_fields
    with pytest.raises(KindUnusable, match="no_such_module"):
        registry.find_kind("broken")
    assert "broken" not in [each.name for each in registry.usable_kinds()]


def test_the_server_starts_without_importing_vendor_libraries() -> None:
    code = f"import sys, anygpu.wiring; print([name for name in {VENDORS!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_kind_tells_whether_it_uses_the_servers_credentials() -> None:
    ec2, cloud = registry.find_kind("ec2"), registry.find_kind("lambda")
    half = ec2.options.model_validate({"session_token": "t", "secret_access_key": "s"})
    with pytest.raises(AnygpuError, match="must be set together"):
        ec2.ambient(half)
    assert ec2.ambient(ec2.options.model_validate({}))
    assert not ec2.ambient(half.model_copy(update={"access_key_id": "AKIA"}))
    assert cloud.ambient(cloud.options.model_validate({}))
    assert cloud.ambient(cloud.options.model_validate({"api_key": ""}))
    assert not cloud.ambient(cloud.options.model_validate({"api_key": "k"}))
    slurm = registry.find_kind("slurm")
    assert slurm.ambient(slurm.options.model_validate({"private_key": "k"}))  # on the server's own machine
    assert slurm.ambient(slurm.options.model_validate({"host": "login"}))
    assert not slurm.ambient(slurm.options.model_validate({"host": "login", "private_key": "k"}))
