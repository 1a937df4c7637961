"""A backend kind from another package. It runs jobs on this machine and requires a key."""

from pathlib import Path

MODULE = '''
"""Plugged in (for tests). It runs jobs on this machine."""
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from anygpu.backends.contract import AccountStatus
from anygpu.backends.local import LocalBackend
from anygpu.errors import LaunchRefused
from anygpu.events.facts import Offer


class Options(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    endpoint: str = Field("", description="where its API is")
    cpus: int = Field(2, ge=1, description="how many jobs at once")
    api_key: SecretStr | None = Field(None, description="its key")


async def open_backend(name, options, around):
    if options.endpoint == "nowhere":
        raise LaunchRefused("there is nothing at 'nowhere'", hint="Name another endpoint.")
    return Plugged(name, options, around)


class Plugged(LocalBackend):
    def __init__(self, name, options, around):
        self.name = name
        self._endpoint = options.endpoint
        self._key = options.api_key.get_secret_value() if options.api_key else "ambient"
        locks = around.pins / "gpus"
        super().__init__(around.pins / "attempts", gpu_locks=locks, cpus=options.cpus, on_exit=around.on_change)

    async def offers(self, need):
        gpu = Offer(backend=self.name, name="big", gpu_kind="H100", gpu_count=1, price_microusd_per_hour=2_500_000)
        refused = Offer(backend=self.name, name="huge", gpu_count=8, refused="dearer than allowed")
        return [*await super().offers(need), gpu, refused]

    async def launch(self, launch, offer):
        if self._endpoint == "full":
            raise LaunchRefused("every machine is in use")
        return await super().launch(launch, offer)

    async def check(self):
        valid = self._key in ("right", "ambient")
        message = "hello" if valid else "the key is wrong"
        return AccountStatus(valid=valid, message=message, balance_microusd=12_340_000, quota="8 GPUs")

    async def close(self):
        super().close()
'''


def install(folder: Path) -> Path:
    """A directory for the import path that holds the package."""
    (folder / "plugged_kind.py").write_text(MODULE)
    about = folder / "plugged_kind-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged-kind\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[anygpu.backends]\nplugged = plugged_kind\nbroken = no_such_module\n"
    )
    return folder
