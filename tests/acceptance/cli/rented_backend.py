"""A backend kind whose machines cost money. They run on this machine, and each one that is rented is recorded."""

from pathlib import Path

MODULE = '''
"""Rented machines (for tests)."""
from dataclasses import replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from anygpu.backends.local import LocalBackend
from anygpu.events.offers import Offer
from anygpu.spec.sections import Resources


class Options(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    record: str
    price: int = 600_000
    spot_price: int = 0  # 0: it has no spot machines


async def open_backend(name, options, around):
    return Rented(name, options, around)


class Rented(LocalBackend):
    def __init__(self, name, options, around):
        self.name, self._options = name, options
        super().__init__(
            around.pins / "attempts", gpu_locks=around.pins / "gpus", cpus=4, on_exit=around.on_change
        )

    async def offers(self, need):
        firm = Offer(
            backend=self.name,
            name="gpu_1x_t4",
            region="eu-north",
            gpu_kind="T4",
            gpu_count=1,
            gpu_memory_gib=16,
            cpus=64,
            price_microusd_per_hour=self._options.price,
            expected_wait_s=120,
        )
        price = self._options.spot_price
        spot = replace(firm, interruptible=True, price_microusd_per_hour=price)
        return [firm, spot] if price else [firm]

    async def launch(self, launch, offer):
        with Path(self._options.record).open("a") as file:
            print(launch.name, file=file)
        return await super().launch(replace(launch, resources=Resources()), offer)

    async def close(self):
        super().close()
'''


def install(folder: Path) -> Path:
    """A directory for the import path that holds the package."""
    folder.mkdir(exist_ok=True)
    (folder / "rented_kind.py").write_text(MODULE)
    about = folder / "rented_kind-1.0.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: rented-kind\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[anygpu.backends]\nrented = rented_kind\n")
    return folder
